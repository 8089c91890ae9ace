// Command process is poison as a process.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/test/e2e/testdata/poison"
)

func main() {
	serve.Serve(poison.Plugin(send, func() { os.Exit(7) }, func() { select {} }))
}

func send(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
