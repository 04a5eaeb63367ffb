package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/schema"
)

const (
	maxProblems = 10
	schemaFile  = "schemas.json"
)

// validator checks values against the schemas of requests or responses.
type validator struct {
	defs     map[string]any
	mu       sync.Mutex // guards the fields below
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

func newValidator(defs map[string]any) *validator {
	return &validator{defs: defs, compiled: map[string]*jsonschema.Schema{}}
}

// check returns the problems of a value, each with its path: field, field.member, field[3]. Its error is the reason why the value cannot be checked.
func (v *validator) check(name string, value any, field string) (problems []string, err error) {
	defer func() { // the library may panic on invalid schemas
		if p := recover(); p != nil {
			problems, err = nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be checked", field)
		}
	}()
	work := &workLimit{defs: v.defs, remaining: maxVisits}
	if !work.allowsValue(value) || !work.allows(v.defs[name], value) {
		return nil, agent.Errorf(agent.CodeOverflow, "", "to check %s against its schema is too much work, or it has a number that is out of all bounds", field)
	}
	compiled, err := v.compile(name)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "the schema of %s cannot be used: %s", field, clip.Bytes(err.Error(), 300))
	}
	err = compiled.Validate(value)
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if err != nil && !ok {
		return nil, agent.Errorf(agent.CodeInvalid, "", "%s cannot be checked: %s", field, clip.Bytes(err.Error(), 300))
	}
	if ok {
		problems = schema.Problems(failed, field, value, maxProblems)
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

// noFiles is a loader that refuses to read schemas.
type noFiles struct{}

func (noFiles) Load(string) (any, error) {
	return nil, agent.Errorf(agent.CodeDenied, "", "a schema refers to a file")
}

// uncheckedPattern matches everything. It replaces a pattern that Go's regular expressions do not support, such as a look-ahead.
type uncheckedPattern struct{ source string }

func (uncheckedPattern) MatchString(string) bool { return true }
func (p uncheckedPattern) String() string        { return p.source }

func compilePattern(source string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(source)
	if err != nil {
		return uncheckedPattern{source}, nil //nolint:nilerr // unsupported patterns match everything
	}
	return re, nil
}

// intFormat returns a format of OpenAPI for integers with a number of bits.
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
