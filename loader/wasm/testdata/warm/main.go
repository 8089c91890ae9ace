// Command warm compiles modules into a compilation cache. Tests under the race
// detector, which makes the compiler twenty times slower, run it first.
package main

import (
	"context"
	"log"
	"os"

	"github.com/sluicehq/sluice/loader/wasm"
)

func main() {
	for _, path := range os.Args[2:] {
		ctx := context.Background()
		m, err := wasm.Open(ctx, path, wasm.Options{CacheDir: os.Args[1]})
		if err != nil {
			log.Fatal(err)
		}
		if err := m.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}
}
