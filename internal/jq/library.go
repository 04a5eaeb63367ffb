package jq

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/itchyny/gojq"
)

//go:embed guards.jq
var guardsSource string

//go:embed builtins.jq
var builtinsSource string

// library is what a program finds defined in jq.
type library struct {
	guarded     map[signature]bool // gojq's functions that have a guard
	defined     map[signature]bool // those of builtins.jq
	definitions []*gojq.FuncDef    // in an order in which each finds what it calls: for a name that is defined later gojq would take its own
}

//nolint:gochecknoglobals // it never changes, and is parsed once
var loadLibrary = sync.OnceValues(newLibrary)

func newLibrary() (*library, error) {
	guards, err := gojq.Parse(guardsSource)
	if err != nil {
		return nil, fmt.Errorf("guards.jq: %w", err)
	}
	builtins, err := gojq.Parse(builtinsSource)
	if err != nil {
		return nil, fmt.Errorf("builtins.jq: %w", err)
	}
	l := &library{guarded: map[signature]bool{}, defined: map[signature]bool{}, definitions: guards.FuncDefs}
	for _, f := range guards.FuncDefs {
		if name, ok := strings.CutPrefix(f.Name, "_s_"); ok {
			l.guarded[signature{name, len(f.Args)}] = true
		}
	}
	for _, f := range builtins.FuncDefs {
		r := &rewriter{library: l, isLibrary: true}
		r.definition(f, nil)
		if r.err != nil {
			return nil, fmt.Errorf("builtins.jq: %s: %w", f.Name, r.err)
		}
		l.defined[signature{f.Name, len(f.Args)}] = true
		l.definitions = append(l.definitions, f)
	}
	return l, nil
}

// LoadInitModules gives gojq the library; it loads nothing else.
func (l *library) LoadInitModules() ([]*gojq.Query, error) {
	return []*gojq.Query{{FuncDefs: l.definitions, Term: identity().Term}}, nil
}

// isHarmless reports whether a function of gojq makes no more than it is given and looks no deeper than one level.
func isHarmless(f signature) bool {
	byArity := []string{harmless0, harmless1, harmless2, harmless3}
	return f.arity < len(byArity) && strings.Contains(byArity[f.arity], " "+f.name+" ")
}

// By number of arguments.
const (
	harmless0 = " empty length utf8bytelength keys toboolean type reverse ltrim rtrim trim ascii_downcase ascii_upcase _captures error " +
		"sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh floor round nearbyint rint ceil trunc significand fabs sqrt cbrt " +
		"exp exp10 exp2 expm1 frexp modf log log10 log1p log2 logb gamma tgamma lgamma erf erfc j0 j1 y0 y1 " +
		"infinite isfinite isinfinite nan isnan isnormal gmtime localtime mktime now "
	harmless1 = " has startswith endswith ltrimstr rtrimstr trimstr error path _last "
	harmless2 = " atan2 copysign drem fdim fmax fmin fmod hypot nextafter nexttoward remainder ldexp scalb scalbln pow "
	harmless3 = " fma _range "
)
