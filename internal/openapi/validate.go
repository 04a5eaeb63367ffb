package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	maxProblems = 10
	schemaFile  = "schemas.json"
)

// validator checks values against the schemas of one side.
type validator struct {
	defs     map[string]any
	mu       sync.Mutex // the compiler is not for many at once
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

func newValidator(defs map[string]any) *validator {
	return &validator{defs: defs, compiled: map[string]*jsonschema.Schema{}}
}

// check says what is wrong with a value, each problem with its place: at, at.member, at[3]. An error says why it cannot be checked.
func (v *validator) check(name string, value any, at string) (problems []string, err error) {
	defer func() { // a fault of the library is one of the schema
		if p := recover(); p != nil {
			problems, err = nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be checked", at)
		}
	}()
	work := &visits{defs: v.defs, left: maxVisits}
	if !work.plain(value) || !work.of(v.defs[name], value) {
		return nil, agent.Errorf(agent.CodeOverflow, "", "to check %s against its schema is too much work, or it has a number that is out of all bounds", at)
	}
	schema, err := v.compile(name)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be used: %s", at, clip.Bytes(err.Error(), 300))
	}
	err = schema.Validate(value)
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if err != nil && !ok {
		return nil, agent.Errorf(agent.CodeInvalid, "", "%s cannot be checked: %s", at, clip.Bytes(err.Error(), 300))
	}
	if ok {
		problems = describe(failed, at, message.NewPrinter(language.English))
	}
	return problems, nil
}

func (v *validator) compile(name string) (*jsonschema.Schema, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok := v.compiled[name]; ok {
		return s, nil
	}
	if v.compiler == nil {
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.UseLoader(noFiles{})
		c.UseRegexpEngine(pattern)
		for _, f := range formats() {
			c.RegisterFormat(f)
		}
		c.AssertFormat()
		if err := c.AddResource(schemaFile, map[string]any{"$defs": v.defs}); err != nil {
			return nil, err
		}
		v.compiler = c
	}
	s, err := v.compiler.Compile(schemaFile + "#/$defs/" + name)
	if err == nil {
		v.compiled[name] = s
	}
	return s, err
}

// noFiles keeps schemas from being read from anywhere.
type noFiles struct{}

func (noFiles) Load(string) (any, error) {
	return nil, agent.Errorf(agent.CodeDenied, "", "a schema refers to a file")
}

// anything takes the place of a pattern that Go has no form for, such as one that looks ahead: it is not checked.
type anything struct{ source string }

func (a anything) MatchString(string) bool { return true }
func (a anything) String() string          { return a.source }

func pattern(source string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(source)
	if err != nil {
		return anything{source}, nil //nolint:nilerr // see there
	}
	return re, nil
}

// formats are those that OpenAPI adds.
func formats() []*jsonschema.Format {
	whole := func(bits int) func(any) error {
		return func(v any) error {
			n, ok := v.(json.Number)
			if !ok {
				return nil
			}
			if _, err := strconv.ParseInt(n.String(), 10, bits); errors.Is(err, strconv.ErrRange) {
				return fmt.Errorf("does not fit into %d bits", bits)
			}
			return nil
		}
	}
	return []*jsonschema.Format{{Name: "int32", Validate: whole(32)}, {Name: "int64", Validate: whole(64)}}
}

// describe lists the innermost causes: those above only say that something below is wrong.
func describe(e *jsonschema.ValidationError, at string, p *message.Printer) []string {
	var all []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(all) >= maxProblems {
			return
		}
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			all = append(all, locate(at, e.InstanceLocation)+": fits none of the alternatives"+alternatives(e, at, p))
			return
		default:
		}
		if len(e.Causes) == 0 {
			all = append(all, locate(at, e.InstanceLocation)+": "+reasonOf(e.ErrorKind, p))
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	return all
}

// alternatives says of the first few what speaks against them.
func alternatives(e *jsonschema.ValidationError, at string, p *message.Printer) string {
	if one, ok := e.ErrorKind.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
		return fmt.Sprintf(" alone, but %d of them", len(one.Subschemas))
	}
	var all []string
	for _, cause := range e.Causes[:min(3, len(e.Causes))] {
		if problems := describe(cause, at, p); len(problems) > 0 {
			all = append(all, clip.Bytes(problems[0], 200))
		}
	}
	return " (" + strings.Join(all, "; ") + ")"
}

func reasonOf(k jsonschema.ErrorKind, p *message.Printer) string {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return "may not be given (it is read-only, or no value is allowed)"
	case *kind.Type:
		return "got " + k.Got + ", want " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		var list []string
		for _, v := range k.Want[:min(20, len(k.Want))] {
			text, _ := json.Marshal(v) // it was JSON
			list = append(list, clip.Bytes(string(text), 60))
		}
		if len(k.Want) > len(list) {
			list = append(list, "…")
		}
		return "must be one of " + strings.Join(list, ", ")
	default:
		return clip.Bytes(k.LocalizedString(p), 300)
	}
}

// locate writes a place as errors do.
func locate(at string, location []string) string {
	var b strings.Builder
	b.WriteString(at)
	for _, token := range location {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + clip.Bytes(token, 100))
		}
	}
	return clip.Bytes(b.String(), 400)
}
