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

// check returns what is wrong with a value, each problem with its place: field, field.member, field[3]. An error says why the value cannot
// be checked.
func (v *validator) check(name string, value any, field string) (problems []string, err error) {
	defer func() { // a fault of the library is one of the schema
		if p := recover(); p != nil {
			problems, err = nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be checked", field)
		}
	}()
	work := &workLimit{defs: v.defs, left: maxVisits}
	if !work.allowsValue(value) || !work.allows(v.defs[name], value) {
		return nil, agent.Errorf(agent.CodeOverflow, "", "to check %s against its schema is too much work, or it has a number that is out of all bounds", field)
	}
	schema, err := v.compile(name)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be used: %s", field, clip.Bytes(err.Error(), 300))
	}
	err = schema.Validate(value)
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if err != nil && !ok {
		return nil, agent.Errorf(agent.CodeInvalid, "", "%s cannot be checked: %s", field, clip.Bytes(err.Error(), 300))
	}
	if ok {
		problems = problemsOf(failed, field, message.NewPrinter(language.English))
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
		c.UseRegexpEngine(compilePattern)
		c.RegisterFormat(intFormat("int32", 32))
		c.RegisterFormat(intFormat("int64", 64))
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

// uncheckedPattern matches everything. It replaces a pattern that Go's regular expressions cannot express, such as one that looks ahead.
type uncheckedPattern struct{ source string }

func (uncheckedPattern) MatchString(string) bool { return true }
func (p uncheckedPattern) String() string        { return p.source }

func compilePattern(source string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(source)
	if err != nil {
		return uncheckedPattern{source}, nil //nolint:nilerr // it is not checked
	}
	return re, nil
}

// intFormat returns a format that OpenAPI adds: a number of so many bits.
func intFormat(name string, bits int) *jsonschema.Format {
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		if n, ok := v.(json.Number); ok {
			if _, err := strconv.ParseInt(n.String(), 10, bits); errors.Is(err, strconv.ErrRange) {
				return fmt.Errorf("does not fit into %d bits", bits)
			}
		}
		return nil
	}}
}

// problemsOf lists the innermost causes: those above only say that something below is wrong.
func problemsOf(e *jsonschema.ValidationError, field string, p *message.Printer) []string {
	var all []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(all) >= maxProblems {
			return
		}
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			all = append(all, fieldPath(field, e.InstanceLocation)+": fits none of the alternatives"+alternativesReason(e, field, p))
			return
		default:
		}
		if len(e.Causes) == 0 {
			all = append(all, fieldPath(field, e.InstanceLocation)+": "+reasonOf(e.ErrorKind, p))
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	return all
}

// alternativesReason says why the first few alternatives do not fit.
func alternativesReason(e *jsonschema.ValidationError, field string, p *message.Printer) string {
	if one, ok := e.ErrorKind.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
		return fmt.Sprintf(" alone, but %d of them", len(one.Subschemas))
	}
	var all []string
	for _, cause := range e.Causes[:min(3, len(e.Causes))] {
		if problems := problemsOf(cause, field, p); len(problems) > 0 {
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

// fieldPath returns the path of a value as errors show it: field.member[3].
func fieldPath(field string, location []string) string {
	var b strings.Builder
	b.WriteString(field)
	for _, token := range location {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + clip.Bytes(token, 100))
		}
	}
	return clip.Bytes(b.String(), 400)
}
