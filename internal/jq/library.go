package jq

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/itchyny/gojq"
)

//go:embed guards.jq
var guardsSource string

//go:embed builtins.jq
var builtinsSource string

// library is what a program finds defined in jq.
type library struct {
	guards  []*gojq.FuncDef
	guarded map[name]bool          // the functions that have a guard
	defined map[name]*gojq.FuncDef // builtins.jq
	begun   map[name]bool          // of defined, what was needed
	needed  []*gojq.FuncDef        // in an order in which each finds what it calls
	err     error
}

func newLibrary() (*library, error) {
	l := &library{guarded: map[name]bool{}, defined: map[name]*gojq.FuncDef{}, begun: map[name]bool{}}
	guards, err := gojq.Parse(guardsSource)
	if err != nil {
		return nil, fmt.Errorf("guards.jq: %w", err)
	}
	builtins, err := gojq.Parse(builtinsSource)
	if err != nil {
		return nil, fmt.Errorf("builtins.jq: %w", err)
	}
	l.guards = guards.FuncDefs
	for _, f := range guards.FuncDefs {
		if text, ok := strings.CutPrefix(f.Name, "_s_"); ok {
			l.guarded[name{text, len(f.Args)}] = true
		}
	}
	for _, f := range builtins.FuncDefs {
		l.defined[name{f.Name, len(f.Args)}] = f
	}
	return l, nil
}

// need adds a function, and what it calls before it: gojq would take its own, unguarded one for a name that is defined later.
func (l *library) need(n name) {
	f := l.defined[n]
	if f == nil || l.begun[n] {
		return
	}
	l.begun[n] = true
	r := &rewriter{library: l, builtin: true}
	r.define(f, nil)
	if r.err != nil && l.err == nil {
		l.err = fmt.Errorf("builtins.jq: %s: %w", n, r.err)
	}
	l.needed = append(l.needed, f)
}

// LoadInitModules gives gojq the library; it loads nothing else.
func (l *library) LoadInitModules() ([]*gojq.Query, error) {
	all := append(append([]*gojq.FuncDef{}, l.guards...), l.needed...)
	return []*gojq.Query{{FuncDefs: all, Term: identity().Term}}, nil
}

// harmless are gojq's own functions that make no more than they were given and look no deeper than one level.
func harmless(n name) bool {
	list := []string{harmless0, harmless1, harmless2, harmless3}
	return n.arity < len(list) && strings.Contains(list[n.arity], " "+n.text+" ")
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
