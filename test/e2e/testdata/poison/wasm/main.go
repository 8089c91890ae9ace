// Command wasm is poison as a WASM module.
package main

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/pluginapi/guest"
	"github.com/sluicehq/sluice/test/e2e/testdata/poison"
)

func init() {
	guest.Serve(poison.Plugin(send, func() { panic("poison") }, func() {
		for {
		}
	}))
}

func main() {}

func send(ctx context.Context, url string, body []byte) error {
	resp, err := guest.Do(ctx, guest.Request{Method: "POST", URL: url, Body: body})
	if err != nil {
		return err
	}
	if resp.Status != 204 {
		return fmt.Errorf("status %d", resp.Status)
	}
	return nil
}
