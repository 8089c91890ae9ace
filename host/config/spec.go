package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// kind is the type of a host setting.
type kind uint8

const (
	kindString    kind = iota + 1
	kindBool           // bool
	kindInt            // int64
	kindRatio          // float64, from 0 to 1
	kindDuration       // time.Duration, written "250ms"
	kindSize           // int64 bytes, written "8MiB"
	kindStrings        // []string
	kindStringMap      // map[string]Secret
	kindSecret         // Secret
	kindKafka          // string: the name of a kafka block
	kindProps          // properties: handled by the properties table
	kindForEach        // for_each: evaluated before its block is read
)

// describe says what a value of kind k looks like, for a message.
func (k kind) describe() string {
	switch k {
	case kindString, kindSecret:
		return `a text in quotes`
	case kindBool:
		return `true or false`
	case kindInt:
		return `a whole number`
	case kindRatio:
		return `a number from 0 to 1, such as 0.5`
	case kindDuration:
		return `a duration with its unit, such as "250ms", "30s" or "5m"`
	case kindSize:
		return `a size with its unit, such as "512KiB" or "8MiB"`
	case kindStrings:
		return `a list of texts, such as ["a", "b"]`
	case kindStringMap, kindProps:
		return `a map of texts, such as { NAME = "value" }`
	case kindKafka:
		return `the name of a kafka block, such as kafka.main`
	case kindForEach:
		return `a list of texts or a map`
	default:
		return `a value`
	}
}

// label is the kind's name in the documentation.
func (k kind) label() string {
	switch k {
	case kindString:
		return "string"
	case kindSecret:
		return "secret"
	case kindBool:
		return "bool"
	case kindInt:
		return "int"
	case kindRatio:
		return "number"
	case kindDuration:
		return "duration"
	case kindSize:
		return "size"
	case kindStrings:
		return "list of strings"
	case kindStringMap, kindProps:
		return "map of strings"
	case kindKafka:
		return "kafka.NAME"
	case kindForEach:
		return "list or map"
	default:
		return ""
	}
}

// setting describes one setting of the host.
type setting struct {
	name     string
	kind     kind
	help     string
	required bool
	def      any    // Of the Go type the kind is read as; nil means none.
	defText  string // Shown in the documentation where def does not say it.
	allowed  []string
	min, max *int64 // Of an int; of a duration in nanoseconds; of a size in bytes.
	path     bool   // A path, or list of paths, relative to the file.

	// properties are Kafka Connect's and KIP-1302's names for it.
	properties []property

	// refuse says why this version cannot honour the setting; refuseValue
	// says it of single values.
	refuse      string
	refuseValue map[string]string
}

// blockSpec describes one block.
type blockSpec struct {
	name     string
	label    string // What its label is; empty means it has none.
	help     string
	many     bool // May stand more than once.
	settings []setting
	blocks   []blockSpec
	open     bool   // Takes any further setting: someone else describes them.
	refuse   string // Why this version cannot honour the block.
}

func (b *blockSpec) setting(name string) *setting {
	for i := range b.settings {
		if b.settings[i].name == name {
			return &b.settings[i]
		}
	}
	return nil
}

func (b *blockSpec) block(name string) *blockSpec {
	for i := range b.blocks {
		if b.blocks[i].name == name {
			return &b.blocks[i]
		}
	}
	return nil
}

// names lists what may stand in the block, for suggestions.
func (b *blockSpec) names() []string {
	var out []string
	for i := range b.settings {
		if b.settings[i].refuse == "" {
			out = append(out, b.settings[i].name)
		}
	}
	for i := range b.blocks {
		if b.blocks[i].refuse == "" {
			out = append(out, b.blocks[i].name)
		}
	}
	return out
}

// title names the block as a message does.
func (b *blockSpec) title() string {
	if b.name == "" {
		return "a file"
	}
	return "the block " + b.name
}

// defaultText shows the default as a user would write it.
func (s *setting) defaultText() string {
	if s.defText != "" {
		return s.defText
	}
	switch d := s.def.(type) {
	case nil:
		return ""
	case string:
		return strconv.Quote(d)
	case time.Duration:
		return strconv.Quote(durationText(d))
	case int64:
		if s.kind == kindSize {
			return strconv.Quote(sizeText(d))
		}
		return strconv.FormatInt(d, 10)
	case []string:
		quoted := make([]string, len(d))
		for i, v := range d {
			quoted[i] = strconv.Quote(v)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default:
		return fmt.Sprint(d)
	}
}

// show writes a bound or value of the setting's kind as a user would.
func (s *setting) show(n int64) string {
	switch s.kind {
	case kindDuration:
		return strconv.Quote(durationText(time.Duration(n)))
	case kindSize:
		return strconv.Quote(sizeText(n))
	default:
		return strconv.FormatInt(n, 10)
	}
}

func limit(n int64) *int64 { return &n }

func limitDuration(d time.Duration) *int64 { return limit(int64(d)) }
