package app

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Names that are not settings.
const (
	envPrefix    = "TURNSTONE_"
	secretPrefix = "TURNSTONE_SECRET_" // begins the variables that documents of the operator may name
	configFlag   = "config"
	configEnv    = "TURNSTONE_CONFIG"
	configFile   = "turnstone.yaml"
	openAIKey    = "OPENAI_API_KEY"
	anthropicKey = "ANTHROPIC_API_KEY"
)

// Setting describes one setting, for documentation and for those that check other files against the configuration.
type Setting struct {
	Path    string   // as in YAML: "http.addr"
	Env     []string // variables that set it, the strongest first
	Flag    string   // without dashes: "http-addr"
	Type    string   // string, secret, bool, integer, number, size, duration or list
	Default string   // as it would be written; empty: none
	Help    string
}

// Settings lists every setting that has a variable and a flag, in the order of [Config].
func Settings() []Setting {
	cfg := Default()
	var all []Setting
	for _, f := range fields(&cfg) {
		all = append(all, f.Setting)
	}
	return all
}

// Variables are the names of all environment variables that [Load] and [TemporalOptions] read themselves. Besides these the Temporal
// SDK reads the rest of TEMPORAL_*.
func Variables() []string {
	names := []string{configEnv, openAIKey, anthropicKey}
	for _, s := range Settings() {
		names = append(names, s.Env...)
	}
	return names
}

// field is a setting and the place in a Config that holds it.
type field struct {
	Setting
	value reflect.Value // addressable, of one of the types of setText
}

// fields walks a Config: structs are sections, everything else is a setting. A list of structs (models) is neither: only YAML has it.
func fields(cfg *Config) []field { return walk(nil, reflect.ValueOf(cfg).Elem(), "") }

func walk(all []field, section reflect.Value, prefix string) []field {
	for i := range section.NumField() {
		info, value := section.Type().Field(i), section.Field(i)
		name, inline := yamlName(info)
		path := prefix + name
		switch {
		case !info.IsExported(), isListOfStructs(info.Type):
		case inline:
			all = walk(all, value, prefix)
		case info.Type.Kind() == reflect.Struct:
			all = walk(all, value, path+".")
		default:
			all = append(all, field{value: value, Setting: Setting{
				Path: path, Env: envNames(path, info.Tag.Get("env")), Flag: strings.NewReplacer(".", "-", "_", "-").Replace(path),
				Type: typeName(value), Default: text(value), Help: info.Tag.Get("help"),
			}})
		}
	}
	return all
}

// yamlName reads the tag `yaml:"name"` or `yaml:",inline"`.
func yamlName(info reflect.StructField) (name string, inline bool) {
	name, option, _ := strings.Cut(info.Tag.Get("yaml"), ",")
	return name, option == "inline"
}

func isListOfStructs(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func envNames(path, known string) []string {
	names := []string{envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))}
	if known != "" {
		names = append(names, known)
	}
	return names
}

func typeName(v reflect.Value) string {
	switch v.Addr().Interface().(type) {
	case *Secret:
		return "secret"
	case *bool:
		return "bool"
	case *int, *int64:
		return "integer"
	case *float64:
		return "number"
	case *Size:
		return "size"
	case *time.Duration, *Keep:
		return "duration"
	case *[]string:
		return "list"
	default:
		return "string"
	}
}

// text is the inverse of setText: what a person would write.
func text(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case *string:
		return *p
	case *Secret:
		return p.Reveal()
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *int64:
		return strconv.FormatInt(*p, 10)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *Size:
		return p.String()
	case *time.Duration:
		return shortDuration(*p)
	case *Keep:
		return string(*p)
	case *[]string:
		return strings.Join(*p, ",")
	default:
		return ""
	}
}

// shortDuration writes 168h where time.Duration writes 168h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// setText parses what a variable, a flag or a YAML scalar says. Its error says what is wanted and never repeats the text.
func setText(v reflect.Value, s string) error {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = s
	case *Secret:
		*p = Secret(s)
	case *[]string:
		*p = splitList(s)
	case *bool:
		return parse(p, s, strconv.ParseBool, "true or false")
	case *int:
		return parse(p, s, strconv.Atoi, "a whole number")
	case *int64:
		return parse(p, s, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }, "a whole number")
	case *float64:
		return parse(p, s, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, "a number")
	case *time.Duration:
		return parse(p, s, time.ParseDuration, "a duration such as 30s or 1h30m")
	case *Keep:
		return parse(p, s, parseKeep, "a duration such as 720h or 90d, or 0")
	case *Size:
		return parse(p, s, parseSize, "a size in bytes such as 1048576 or 10MiB")
	default:
		return errors.New("cannot be set from text") // a field type that this package does not know: the tests meet every field
	}
	return nil
}

func parse[T any](to *T, s string, with func(string) (T, error), want string) error {
	v, err := with(strings.TrimSpace(s))
	if err != nil {
		return errors.New("want " + want)
	}
	*to = v
	return nil
}

// splitList splits at commas; empty parts count for nothing.
func splitList(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
