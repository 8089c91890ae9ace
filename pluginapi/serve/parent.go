package serve

import (
	"os"
	"time"
)

// watchParent ends the process when its parent is another one than parent.
func watchParent(parent int) {
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			endWithChildren()
		}
	}
}
