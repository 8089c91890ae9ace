package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteReference writes the reference of all blocks and settings as Markdown.
// It is made from the table the decoder reads by, so it cannot differ from it.
func WriteReference(w io.Writer) error {
	var out strings.Builder
	out.WriteString(referenceIntro)
	root := rootSpec()
	for i := range root.blocks {
		writeBlock(&out, &root.blocks[i], "")
	}
	writeProperties(&out)
	out.WriteString(referenceFunctions)
	names := make([]string, 0, 64)
	for name := range pureFunctions() {
		names = append(names, "`"+name+"`")
	}
	slices.Sort(names)
	fmt.Fprintf(&out, "Strings, collections and numbers, as in Terraform: %s.\n", strings.Join(names, ", "))
	_, err := io.WriteString(w, out.String())
	return err
}

const referenceIntro = `# Configuration reference

<!-- Made from the code: go test ./host/config -run Reference -update -->

Definitions are HCL files: ` + "`sluice run PATH…`" + ` reads files and directories, of a directory all ` + "`*.hcl`" + ` and
` + "`*.hcl.json`" + ` in it, as one configuration. ` + "`sluice validate PATH…`" + ` says everything that is wrong with them, each
problem with its line and what to do. A connector with an error is not run; the others are. Examples are in
` + "`configs/`" + `.

- Durations are written with a unit: "250ms", "30s", "5m", "1h30m", "7d". So are sizes: "512KiB", "8MiB", "1GB". A bare
  number is an error.
- A text that holds a number or true/false, such as one from the environment, stands for it where a number or bool is wanted.
- null is an error: leave a setting out to get its default.
- Relative paths (` + "`ca_file`, `plugin_path`, `state_dir`, `file(\"…\")`" + `) are taken from the directory of the file they
  stand in. Settings within ` + "`config { }`" + ` are the plugin's: a path there is taken from where the worker was started;
  ` + "`\"${path.module}/x\"`" + ` makes it relative to the file.
- A value marked by ` + "`secret(…)`" + `, or written to a secret setting, is shown as (secret) everywhere. Settings that are
  shown in status, logs or metrics refuse such a value.
- In the JSON form, objects that stand for blocks may hold notes under the key "//". A key may not stand twice in an
  object. Texts are templates as in the other form: a literal ` + "`${`" + ` is written ` + "`$${`" + `, ` + "`%{`" + ` is ` + "`%%{`" + `.
- A setting in *italics* is known, but refused by this version.

`

const referenceFunctions = `## Expressions

` + "`local.NAME`" + ` is a value from a locals block, ` + "`kafka.NAME`" + ` a connection, ` + "`path.module`" + ` the directory of the file,
` + "`each.key`" + ` and ` + "`each.value`" + ` the instance of a connector with ` + "`for_each`" + `.

` + "`env(name, default)`" + ` is an environment variable; without a default it is an error if it is not set. Its value is never
taken as a template again. ` + "`file(path)`" + ` is a file's text, ` + "`secret(value)`" + ` the same value, shown nowhere.

`

func writeBlock(out *strings.Builder, b *blockSpec, path string) {
	path = join(path, b.name)
	title := "`" + path + "`"
	if b.label != "" {
		title = fmt.Sprintf("`%s \"%s\"`", path, strings.ToUpper(b.label))
	}
	fmt.Fprintf(out, "## %s\n\n%s\n\n", title, b.help)
	if b.refuse != "" {
		fmt.Fprintf(out, "*%s*\n\n", b.refuse)
		return
	}
	if len(b.settings) > 0 {
		out.WriteString("| Setting | Type | Default | Kafka Connect property | Meaning |\n|---|---|---|---|---|\n")
	}
	for i := range b.settings {
		s := &b.settings[i]
		name, def := "`"+s.name+"`", s.defaultText()
		if s.refuse != "" {
			name = "*" + s.name + "*"
		}
		switch {
		case s.required:
			def = "required"
		case def != "" && s.defText == "":
			def = "`" + def + "`"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", name, s.kind.label(), def, propertyNames(s), cell(s.meaning()))
	}
	if len(b.settings) > 0 {
		out.WriteString("\n")
	}
	if b.open && len(b.settings) > 0 {
		out.WriteString("Further settings are the options of the converter.\n\n")
	}
	for i := range b.blocks {
		writeBlock(out, &b.blocks[i], path)
	}
}

// meaning is the help with the values and bounds.
func (s *setting) meaning() string {
	text := s.help
	if len(s.allowed) > 0 {
		quoted := make([]string, len(s.allowed))
		for i, v := range s.allowed {
			quoted[i] = "`" + v + "`"
		}
		text += " One of " + strings.Join(quoted, ", ") + "."
	}
	switch {
	case s.min != nil && s.max != nil:
		text += fmt.Sprintf(" From %s to %s.", plainBound(s.show(*s.min)), plainBound(s.show(*s.max)))
	case s.min != nil:
		text += fmt.Sprintf(" At least %s.", plainBound(s.show(*s.min)))
	case s.max != nil:
		text += fmt.Sprintf(" At most %s.", plainBound(s.show(*s.max)))
	}
	return text
}

func plainBound(text string) string { return strings.Trim(text, `"`) }

func propertyNames(s *setting) string {
	names := make([]string, len(s.properties))
	for i, p := range s.properties {
		names[i] = "`" + p.name + "`"
	}
	return strings.Join(names, ", ")
}

// cell makes text fit into a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// writeProperties lists the properties of Kafka Connect that are not a second
// name of a setting.
func writeProperties(out *strings.Builder) {
	out.WriteString("## Kafka Connect properties without a setting\n\n" +
		"`properties = { … }` takes the names in the tables above, and `key.converter.*`, `value.converter.*` and `header.converter.*` " +
		"as options of the converters, with underscores for dots. It refuses any other; of these it says:\n\n| Property | Instead |\n|---|---|\n")
	foreign := foreignProperties()
	names := make([]string, 0, len(foreign))
	for name := range foreign {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		shown := name
		if strings.HasSuffix(name, ".") {
			shown += "*"
		}
		fmt.Fprintf(out, "| `%s` | %s |\n", shown, cell(foreign[name]))
	}
	out.WriteString("\n")
}
