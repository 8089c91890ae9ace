package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Bounds on what one load reads.
const (
	maxFiles     = 10_000
	maxInstances = 1_000 // Of one for_each.
)

// loader is the state of one Load. It is used by one goroutine.
type loader struct {
	env     Env
	diags   hcl.Diagnostics
	secrets *redactor
	sources *Sources

	names       []string        // Files in reading order.
	broken      map[string]bool // Files whose syntax is wrong.
	locals      map[string]*local
	kafkaBlocks map[string]*rawBlock
	scopes      map[string]*scope
}

func (l *loader) report(d *hcl.Diagnostic) { l.diags = append(l.diags, d) }

// Load reads the files and directories in paths, of a directory all *.hcl and
// *.hcl.json in it but not below it, as one configuration. The Config is never
// nil. Diagnostics come in the order of the files and lines; print them with
// the config's Sources, which knows the secrets to leave out.
//
// A connector that has an error, or that depends on something that has one, is
// not Usable; the others are. The worker and each connection say likewise
// whether they are usable.
func Load(paths []string, env Env) (*Config, hcl.Diagnostics) {
	secrets := &redactor{}
	l := &loader{
		env: env.withDefaults(), secrets: secrets,
		sources: &Sources{files: map[string]*hcl.File{}, secrets: secrets},
		broken:  map[string]bool{}, locals: map[string]*local{},
		kafkaBlocks: map[string]*rawBlock{}, scopes: map[string]*scope{},
	}
	for _, path := range paths {
		l.addPath(path)
	}
	if len(paths) == 0 {
		l.report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No configuration", Detail: "Name at least one file or directory."})
	}
	cfg := l.assemble(l.collect())
	cfg.Sources = l.sources
	return cfg, tidy(l.diags, l.secrets)
}

// addPath reads a file, or the configuration files of a directory.
func (l *loader) addPath(path string) {
	info, err := l.env.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.unreadable(path, "There is no such file or directory.")
	case err != nil:
		l.unreadable(path, err.Error()+".")
	case info.IsDir():
		l.addDirectory(path)
	default:
		l.addFile(path)
	}
}

func (l *loader) unreadable(path, why string) {
	l.report(errorAt(hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}, "Cannot read configuration", "%s: %s", path, why))
}

func (l *loader) addDirectory(path string) {
	entries, err := l.env.ReadDir(path)
	if err != nil {
		l.unreadable(path, err.Error()+".")
		return
	}
	found := 0
	for _, e := range entries { // Sorted by name.
		if isConfigName(e.Name()) && !e.IsDir() {
			l.addFile(filepath.Join(path, e.Name()))
			found++
		}
	}
	if found == 0 {
		l.unreadable(path, "The directory has no file named *.hcl or *.hcl.json.")
	}
}

// isConfigName leaves out hidden files and those that editors leave behind.
func isConfigName(name string) bool {
	return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") &&
		(strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json"))
}

func (l *loader) addFile(path string) {
	path = filepath.Clean(path)
	if slices.Contains(l.names, path) {
		return // Named twice on the command line.
	}
	if len(l.names) == maxFiles {
		l.unreadable(path, "There are too many files in one configuration.")
		return
	}
	src, err := l.env.ReadFile(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		l.unreadable(path, err.Error()+".")
		return
	}
	file, diags := parseFile(path, src)
	l.diags = append(l.diags, diags...)
	l.broken[path] = diags.HasErrors()
	l.sources.files[path] = file
	l.names = append(l.names, path)
}

// blocks are the top-level blocks of all files, by what they are.
type blocks struct {
	workers, plugins, connectors []*rawBlock
	kafkaOrder                   []string
}

// collect sorts the top-level blocks of all files and reports those that mean
// nothing or stand twice.
func (l *loader) collect() blocks {
	root := rootSpec()
	var out blocks
	for _, name := range l.names {
		body := l.split(l.sources.files[name].Body, root)
		l.collectLoose(root, body.attrs)
		for _, b := range body.blocks {
			spec := root.block(b.name)
			switch {
			case spec == nil:
				l.report(errorAt(b.def, "Unknown block", "There is no block %q at the top of a file.%s", b.name, l.suggest(root, b.name)))
			case spec.refuse != "":
				l.report(errorAt(b.def, "Not supported by this version", "The block %s: %s", b.name, spec.refuse))
			case !l.checkLabels(b, spec):
			case b.name == "worker":
				out.workers = append(out.workers, b)
			case b.name == "plugin":
				out.plugins = append(out.plugins, b)
			case b.name == "connector":
				out.connectors = append(out.connectors, b)
			case b.name == "locals":
				l.collectLocals(b, name)
			case b.name == "kafka":
				if first, twice := l.kafkaBlocks[b.labels[0]]; twice {
					l.report(errorAt(b.def, "Written twice", "The connection %q already stands at %s. Give one of them another name.", b.labels[0], place(first.def)))
					continue
				}
				l.kafkaBlocks[b.labels[0]] = b
				out.kafkaOrder = append(out.kafkaOrder, b.labels[0])
			}
		}
	}
	return out
}

// collectLoose reports settings outside any block.
func (l *loader) collectLoose(root *blockSpec, attrs []*hcl.Attribute) {
	for _, attr := range attrs {
		if sub := root.block(attr.Name); sub != nil {
			l.report(errorAt(attr.NameRange, "Block written as a setting", "%q is a block. Write %s { … } without the equals sign.", attr.Name, sub.header()))
			continue
		}
		l.report(errorAt(attr.NameRange, "Unknown setting", "A file has only blocks at its top, not the setting %q.%s", attr.Name, l.suggest(root, attr.Name)))
	}
}

func (l *loader) collectLocals(b *rawBlock, file string) {
	body := l.split(b.body, &blockSpec{open: true})
	for _, inner := range body.blocks {
		l.report(errorAt(inner.def, "Setting written as a block", "A locals block has only NAME = VALUE: write %s = { … }.", inner.name))
	}
	for _, attr := range body.attrs {
		if first, twice := l.locals[attr.Name]; twice {
			l.report(errorAt(attr.NameRange, "Written twice", "local.%s is already defined at %s. Give one of them another name.", attr.Name, place(first.attr.NameRange)))
			continue
		}
		l.locals[attr.Name] = &local{attr: attr, scope: l.scopeFor(file)}
	}
}

// assemble evaluates the blocks and checks them with each other.
func (l *loader) assemble(in blocks) *Config {
	root := rootSpec()
	l.evalLocals()
	cfg := &Config{Kafka: map[string]*Kafka{}, Plugins: map[string]*PluginPin{}}
	cfg.Worker = l.worker(in.workers, root.block("worker"))
	for _, name := range in.kafkaOrder {
		cfg.Kafka[name] = l.kafka(l.kafkaBlocks[name], root.block("kafka"))
	}
	pins := map[string]*rawBlock{}
	for _, b := range in.plugins {
		if first, twice := pins[b.labels[0]]; twice {
			l.report(errorAt(b.def, "Written twice", "The plugin %q already has a block at %s. Put its settings into one block.", b.labels[0], place(first.def)))
			cfg.Plugins[b.labels[0]].Usable = false
			continue
		}
		pins[b.labels[0]] = b
		cfg.Plugins[b.labels[0]] = l.pluginPin(b, root.block("plugin"))
	}
	spec := root.block("connector")
	for _, b := range in.connectors {
		cfg.Connectors = append(cfg.Connectors, l.instances(b, spec, cfg)...)
	}
	l.checkAcross(cfg)
	return cfg
}

// instances reads a connector block: one connector, or one for each key.
func (l *loader) instances(b *rawBlock, spec *blockSpec, cfg *Config) []*Connector {
	s := l.fullScope(b.def.Filename)
	var each *hcl.Attribute
	for _, attr := range l.peek(b.body, spec).attrs {
		if attr.Name == "for_each" {
			each = attr
		}
	}
	if each == nil {
		return []*Connector{l.connector(b, b.labels[0], spec, s, cfg)}
	}
	v, ok := l.eval(each.Expr, s)
	if !ok {
		return nil
	}
	var out []*Connector
	keys := map[string]bool{}
	if v.IsMarked() || v.IsNull() || !v.CanIterateElements() || v.LengthInt() > maxInstances {
		l.report(errorAt(each.Expr.Range(), "Wrong value", "for_each wants a list of texts or a map with at most %d elements, not null and not secret.", maxInstances))
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if isSequence(v.Type()) {
			key = value
		}
		if key.IsMarked() || key.IsNull() || key.Type() != cty.String {
			l.report(errorAt(each.Expr.Range(), "Wrong value", "for_each wants a list of texts or a map; this list has %s in it.", typeName(key)))
			return out
		}
		name := key.AsString()
		if keys[name] {
			l.report(errorAt(each.Expr.Range(), "Wrong value", "for_each has %q twice, which would make two connectors of one name. Use distinct(…).", name))
			continue
		}
		keys[name] = true
		out = append(out, l.connector(b, b.labels[0]+"-"+name, spec, s.withEach(name, value), cfg))
	}
	return out
}

// peek splits a body without reporting, for a look ahead of its decoding.
func (l *loader) peek(body hcl.Body, spec *blockSpec) rawBody {
	diags := l.diags
	out := l.split(body, spec)
	l.diags = diags
	return out
}
