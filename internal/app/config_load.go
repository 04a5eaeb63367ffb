package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// maxFileBytes bounds turnstone.yaml. The parser's time grows with the square of the nesting: a file of this size that is nothing but
// brackets costs seconds, one of 1 MiB would cost half an hour.
const maxFileBytes = 64 << 10

// Sources is where [Load] looks; it does not read the process's environment.
type Sources struct {
	Flags *pflag.FlagSet // parsed, with the flags of [AddFlags]; nil: none
	Env   []string       // "NAME=value" as in os.Environ; an empty value counts as unset
	Dir   string         // what relative paths start from, usually "."; holds turnstone.yaml unless --config or TURNSTONE_CONFIG name another file
	Base  *Config        // what applies when nothing is said; nil: [Default]
}

// Load reads the file, the environment and the flags, each overriding the one before, fills in what depends on other settings, and
// validates. Its error joins every [Fault] found; then there is no Config.
//
// String values in the file may hold ${NAME} and ${NAME:-default}; $${ is a literal ${. The default also
// applies when the variable is empty; without one an unset variable is a fault.
func Load(src Sources) (*Config, error) {
	var err error
	if src.Dir, err = filepath.Abs(src.Dir); err != nil { // data_dir must survive a change of folder, and file:// needs a full path
		return nil, &Fault{Message: "find the working folder: " + err.Error()}
	}
	cfg := Default()
	if src.Base != nil {
		cfg = *src.Base
	}
	cfg.Models = slices.Clone(cfg.Models) // complete adds keys
	cfg.origins, cfg.warnings = map[string]string{}, nil
	l := loader{cfg: &cfg, env: environ(src.Env), fields: fields(&cfg)}
	l.readFile(src)
	l.readEnvironment(src.Env)
	if src.Flags != nil {
		l.readFlags(src.Flags)
	}
	l.complete(src.Dir)
	l.validate()
	if err = l.faults.err(); err != nil {
		return nil, err
	}
	return &cfg, nil
}

// Warnings returns the TURNSTONE_ variables that are no settings: typing mistakes, or what Kubernetes sets for a service named turnstone.
func (c Config) Warnings() []string { return slices.Clone(c.warnings) }

// Origin returns where a setting's value came from: "turnstone.yaml:12", a variable's name, "--flag", or "default".
func (c Config) Origin(path string) string {
	if o, ok := c.origins[path]; ok {
		return o
	}
	return "default"
}

// loader is one call of Load.
type loader struct {
	cfg    *Config
	env    map[string]string
	fields []field // of cfg
	faults faults
}

func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// readFile reads the YAML file. A missing one is a fault only if a flag or variable names it.
func (l *loader) readFile(src Sources) {
	name, isNamed := l.env[configEnv], l.env[configEnv] != ""
	if src.Flags != nil && src.Flags.Changed(configFlag) {
		name, isNamed = src.Flags.Lookup(configFlag).Value.String(), true
	}
	if !isNamed {
		name = configFile
	}
	data, err := readBounded(inDir(src.Dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isNamed:
	case err != nil:
		l.faults.add("", "", "read configuration %q: %s", name, err)
	default:
		l.readYAML(name, data)
	}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = errors.New("larger than 64 KiB")
	}
	return data, err
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// setValue stores a text and notes where it came from.
func (l *loader) setValue(path string, value reflect.Value, text, origin string) {
	if err := setText(value, text); err != nil {
		l.faults.add(origin, path, "%s", err)
		return
	}
	l.cfg.origins[path] = origin
}

// readEnvironment sets the settings that have a variable, and warns of variables that look like settings and are none.
func (l *loader) readEnvironment(list []string) {
	for _, f := range l.fields {
		for _, name := range f.Env {
			if value := l.env[name]; value != "" {
				l.setValue(f.Path, f.value, value, name)
				break
			}
		}
	}
	// These two are for the command line, which may share an environment with a worker.
	known := append(Variables(), "TURNSTONE_SERVER", "TURNSTONE_KEY")
	for _, entry := range list {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, secretPrefix) && !slices.Contains(known, name) {
			l.cfg.warnings = append(l.cfg.warnings, name+" is set and is no setting of Turnstone")
		}
	}
	slices.Sort(l.cfg.warnings)
}

func (l *loader) readFlags(flags *pflag.FlagSet) {
	for _, f := range l.fields {
		if flags.Changed(f.Flag) {
			l.setValue(f.Path, f.value, flags.Lookup(f.Flag).Value.String(), "--"+f.Flag)
		}
	}
}

// AddFlags defines --config and one flag for each of [Settings]. The flags keep the text; [Load] checks it together with everything
// else, so that all faults are listed at once.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "path of the configuration file (default ./"+configFile+" if it exists)")
	for _, s := range Settings() {
		flag := flags.VarPF(&rawFlag{text: s.Default, kind: s.Type}, s.Flag, "", s.Help)
		if s.Type == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// rawFlag keeps the text of a flag until [Load] parses it.
type rawFlag struct {
	text, kind string
	given      bool
}

func (f *rawFlag) String() string { return f.text }

func (f *rawFlag) Type() string { return f.kind }

// Set implements [pflag.Value]. The last text of a flag counts; the texts of a list are joined.
func (f *rawFlag) Set(s string) error {
	if f.given && f.kind == "list" {
		s = f.text + "," + s
	}
	f.text, f.given = s, true
	return nil
}
