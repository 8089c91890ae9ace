// Archive makes the class archive the harness starts brokers with; scripts/kafka-libs/fetch runs it once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/sluicehq/sluice/test/kafkatest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := kafkatest.WriteClassArchive(ctx, os.Getenv("SLUICE_KAFKA_LIBS")); err != nil {
		fmt.Fprintf(os.Stderr, "write class archive: %v\n", err)
		os.Exit(1)
	}
}
