//go:build !wasip1

package guest

import (
	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// Serve makes p the plugin of this module. It is to be called once, from an
// init function of package main. Outside a module, so in tests of that package,
// it does nothing.
func Serve(pluginapi.Plugin) {}

// currentHost stands in for the imports of a module: nothing is allowed.
func currentHost() host {
	return host{http: func([]byte) []byte {
		return abi.AppendHTTPResponse(nil, &abi.HTTPResponse{Failure: abi.HTTPForbidden, Message: "not in a WASM module"})
	}}
}
