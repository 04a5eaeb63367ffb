package app

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Load trusts the tags of settings: here each default and each bound is read, and each default is within its bounds.
func TestTagsOfSettings(t *testing.T) {
	var check func(section reflect.Type)
	check = func(section reflect.Type) {
		for field := range section.Fields() {
			switch {
			case field.Type.Kind() == reflect.Struct:
				check(field.Type)
			case isListOfStructs(field.Type):
				check(field.Type.Elem())
			}
			read := func(text string) {
				require.NoError(t, setText(reflect.New(field.Type).Elem(), text), "%s.%s: %s", section, field.Name, text)
			}
			if text, ok := field.Tag.Lookup("default"); ok {
				read(text)
			}
			if bounds, ok := field.Tag.Lookup("range"); ok {
				low, high, ok := strings.Cut(strings.TrimPrefix(bounds, "0|"), "..")
				require.True(t, ok, bounds)
				read(low)
				read(high)
			}
			for key := range strings.SplitSeq(field.Tag.Get("check"), ",") {
				require.Contains(t, []string{"", "required", "name", "address", "url", "redis", "approvals", "key"}, key)
			}
		}
	}
	check(reflect.TypeFor[Config]())
	cfg := Default()
	l := loader{cfg: &cfg}
	eachValue(reflect.ValueOf(&cfg).Elem(), "", l.checkField)
	require.NoError(t, l.faults.err())
}
