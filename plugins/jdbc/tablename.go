package jdbc

import (
	"bytes"
	"errors"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
)

// tableName names a table. It is comparable. Both parts are as the database stores them, not quoted.
type tableName struct {
	schema string // "" is where the connection looks by itself.
	name   string
}

func (n tableName) String() string {
	if n.schema == "" {
		return n.name
	}
	return n.schema + "." + n.name
}

// tableTemplate makes a table's name from a record.
type tableTemplate struct {
	text     *template.Template
	constant tableName
	fixed    bool
	buf      []byte
}

// hiddenDot stands for a dot that a placeholder filled in until the name is cut at its literal dots. No name may hold it.
const hiddenDot = 0

var errTableName = errors.New("want a name, or schema.name, that is not empty")

func parseTable(text string) (*tableTemplate, error) {
	parsed, err := template.Parse(text)
	if err != nil {
		return nil, err
	}
	t := &tableTemplate{text: parsed}
	if constant, ok := parsed.Constant(); ok {
		if t.constant, err = cutTable(constant); err != nil {
			return nil, err
		}
		t.fixed = true
		return t, nil
	}
	return t, nil
}

// of returns the table of r. Not safe for concurrent use.
func (t *tableTemplate) of(r *pluginapi.Record) (tableName, error) {
	if t.fixed {
		return t.constant, nil
	}
	var err error
	nul := false
	t.buf, err = t.text.AppendEscaped(t.buf[:0], r, func(dst, field []byte) []byte {
		nul = nul || bytes.IndexByte(field, hiddenDot) >= 0
		for _, b := range field {
			if b == '.' {
				b = hiddenDot
			}
			dst = append(dst, b)
		}
		return dst
	})
	if err != nil {
		return tableName{}, err
	}
	if nul {
		return tableName{}, errTableName
	}
	return cutTable(string(t.buf))
}

func cutTable(text string) (tableName, error) {
	schema, name, ok := strings.Cut(text, ".")
	if !ok {
		schema, name = "", text
	}
	if name == "" || (ok && schema == "") || strings.Contains(name, ".") {
		return tableName{}, errTableName
	}
	show := strings.NewReplacer(string(rune(hiddenDot)), ".")
	return tableName{schema: show.Replace(schema), name: show.Replace(name)}, nil
}
