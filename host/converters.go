package host

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// converters builds the connector's converters, nil if all leave bytes as they
// are.
func converters(def *config.Connector, desc *pluginapi.Description) (*convert.Chain, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	chain, plain := &convert.Chain{}, true
	for _, part := range []struct {
		block string
		def   config.Converter
		into  *convert.Converter
	}{
		{"key", def.Key, &chain.Key}, {"value", def.Value, &chain.Value}, {"header", def.Header, &chain.Header},
	} {
		if part.def.Name == "" || part.def.Name == "bytes" {
			continue
		}
		plain = false
		at := def.Ranges.At(part.block + ".converter")
		if desc.Form == pluginapi.FormBytes {
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Converter without effect", Subject: &at,
				Detail: fmt.Sprintf("The sink %q takes records as the bytes they were produced with. Remove the %s block's converter.", desc.Name, part.block),
			})
			continue
		}
		settings, ok := convert.Settings(part.def.Name)
		if !ok {
			_, err := convert.New(convert.Spec{Name: part.def.Name})
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Unknown converter", Detail: sentence(err), Subject: &at,
			})
			continue
		}
		options, d := part.def.CheckOptions(settings)
		diags = append(diags, d...)
		if d.HasErrors() {
			continue
		}
		c, err := convert.New(convert.Spec{Name: part.def.Name, Options: options})
		if err != nil {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Converter refused", Detail: sentence(err), Subject: &at})
			continue
		}
		*part.into = c
	}
	if plain {
		return nil, diags
	}
	return chain, diags
}

// converter is a chain as a task uses it.
type converter struct{ chain *convert.Chain }

// Convert converts rec into out; an error names the stage.
func (c converter) Convert(rec, out *pluginapi.Record) (bool, error) {
	keep, err := c.chain.Convert(rec, out)
	var ce *convert.Error
	if errors.As(err, &ce) {
		return false, &sharetask.StageError{Stage: sharetask.Stage(ce.Stage), Err: ce.Err}
	}
	return keep, err
}
