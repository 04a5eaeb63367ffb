package app

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Names that are not settings.
const (
	envPrefix    = "TURNSTONE_"
	secretPrefix = "TURNSTONE_SECRET_" // of variables that documents of the operator may name
	configFlag   = "config"
	configEnv    = "TURNSTONE_CONFIG"
	configFile   = "turnstone.yaml"
	openAIKey    = "OPENAI_API_KEY"
	anthropicKey = "ANTHROPIC_API_KEY"
)

// Setting describes one setting for its documentation.
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

// Variables returns the names of all environment variables that [Load] and [TemporalOptions] read themselves. The Temporal SDK also reads
// the rest of TEMPORAL_*.
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
	value reflect.Value // addressable, of one of the valueTypes
}

// fields returns the settings of a Config. A list of structs, such as models, is no setting: only YAML has it.
func fields(cfg *Config) []field {
	var all []field
	eachValue(reflect.ValueOf(cfg).Elem(), "", func(path string, value reflect.Value, tag reflect.StructTag) {
		if !strings.Contains(path, "[") {
			all = append(all, field{value: value, Setting: Setting{
				Path: path, Env: envNames(path, tag.Get("env")), Flag: strings.NewReplacer(".", "-", "_", "-").Replace(path),
				Type: valueTypes[value.Type()].name, Default: text(value), Help: tag.Get("help"),
			}})
		}
	})
	return all
}

// eachValue calls do for every value of a section, those of its subsections and lists of sections included.
func eachValue(section reflect.Value, path string, do func(path string, value reflect.Value, tag reflect.StructTag)) {
	for i := range section.NumField() {
		info, value := section.Type().Field(i), section.Field(i)
		name, inline := yamlName(info)
		valuePath := join(path, name)
		switch {
		case !info.IsExported():
		case inline:
			eachValue(value, path, do)
		case isListOfStructs(info.Type):
			for i := range value.Len() {
				eachValue(value.Index(i), fmt.Sprintf("%s[%d]", valuePath, i), do)
			}
		case value.Kind() == reflect.Struct:
			eachValue(value, valuePath, do)
		default:
			do(valuePath, value, info.Tag)
		}
	}
}

// yamlName reads the tag `yaml:"name"` or `yaml:",inline"`.
func yamlName(info reflect.StructField) (name string, inline bool) {
	name, option, _ := strings.Cut(info.Tag.Get("yaml"), ",")
	return name, option == "inline"
}

func isListOfStructs(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func envNames(path, shared string) []string {
	names := []string{envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))}
	if shared != "" {
		names = append(names, shared)
	}
	return names
}

// valueType says how values of one Go type are written.
type valueType struct {
	name  string // as in [Setting]
	want  string // for faults
	parse func(text string) (any, error)
}

//nolint:gochecknoglobals // a constant in all but syntax
var valueTypes = map[reflect.Type]valueType{
	reflect.TypeFor[string]():        {"string", "a text", func(s string) (any, error) { return s, nil }},
	reflect.TypeFor[Secret]():        {"secret", "a text", func(s string) (any, error) { return Secret(s), nil }},
	reflect.TypeFor[[]string]():      {"list", "a list", func(s string) (any, error) { return splitList(s), nil }},
	reflect.TypeFor[bool]():          {"bool", "true or false", trimmed(strconv.ParseBool)},
	reflect.TypeFor[int]():           {"integer", "a whole number", trimmed(strconv.Atoi)},
	reflect.TypeFor[int64]():         {"integer", "a whole number", trimmed(func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })},
	reflect.TypeFor[float64]():       {"number", "a number", trimmed(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })},
	reflect.TypeFor[Size]():          {"size", "a size in bytes such as 1048576 or 10MiB", trimmed(parseSize)},
	reflect.TypeFor[time.Duration](): {"duration", "a duration such as 30s or 1h30m", trimmed(time.ParseDuration)},
	reflect.TypeFor[Keep]():          {"duration", "a duration such as 720h or 90d, or 0", trimmed(parseKeep)},
}

func trimmed[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(strings.TrimSpace(s)) }
}

// splitList splits at commas; empty parts are left out.
func splitList(s string) []string {
	var list []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// setText sets a field to the value of a variable, a flag or a YAML scalar. Its error says what is wanted and never repeats the text.
func setText(v reflect.Value, s string) error {
	t, ok := valueTypes[v.Type()]
	if !ok {
		return errors.New("cannot be set from text") // the tests meet every field
	}
	parsed, err := t.parse(s)
	if err != nil {
		return errors.New("want " + t.want)
	}
	v.Set(reflect.ValueOf(parsed))
	return nil
}

// text is the inverse of setText: what a person would write.
func text(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		return value.Reveal()
	case time.Duration:
		return shortDuration(value)
	case []string:
		return strings.Join(value, ",")
	default:
		return fmt.Sprint(value)
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
