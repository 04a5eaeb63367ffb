package kube

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// op is the operation that errors name.
const op = "run container"

// The bounds of what a call may ask for.
const (
	MaxInput = 900 << 10 // bytes of the input and the code together: a Secret holds 1 MiB
	maxEnv   = 64        // variables
	maxWords = 128       // of command and args together
	maxText  = 32 << 10  // bytes of all variables, and of all words
)

// request is a checked call with the defaults filled in.
type request struct {
	in            agent.Container
	image         string
	command, args []string
	cpu, memory   quantity
	timeout       time.Duration
	files         map[string][]byte
}

// request checks a call and fills in the defaults. Errors are [agent.CodeInvalid], [agent.CodeOverflow] beyond a fixed bound and
// [agent.CodeDenied] beyond one of the configuration; Field is the member of [agent.Container] in snake case.
func (c *Cluster) request(in agent.Container) (*request, error) {
	if in.Key == "" {
		return nil, agent.Errorf(agent.CodeInternal, op, "the call has no idempotency key")
	}
	r := &request{in: in, image: in.Image, command: in.Command, args: in.Args, timeout: c.cfg.Deadline, files: map[string][]byte{inputFile: in.Input}}
	if len(in.Input) == 0 {
		r.files[inputFile] = []byte("{}")
	}
	var err error
	if in.Image == "" {
		err = c.useInterpreter(r)
	} else {
		err = c.useImage(r)
	}
	if err != nil {
		return nil, err
	}
	if r.cpu, err = requestedQuantity("cpu", in.CPU, c.max.cpu); err != nil {
		return nil, err
	}
	if r.memory, err = requestedQuantity("memory", in.Memory, c.max.memory); err != nil {
		return nil, err
	}
	switch {
	case in.Timeout == 0:
	case in.Timeout < time.Second:
		return nil, agent.Invalid("timeout", "want at least 1s")
	case in.Timeout > c.cfg.Deadline:
		return nil, agent.FieldErrorf(agent.CodeDenied, "timeout", "%s: at most %s", in.Timeout, c.cfg.Deadline)
	default:
		r.timeout = in.Timeout
	}
	return r, r.check()
}

// useInterpreter makes the request one for the code interpreter.
func (c *Cluster) useInterpreter(r *request) error {
	switch {
	case c.cfg.Interpreter == "":
		return agent.Errorf(agent.CodeDenied, "", "no code interpreter is configured")
	case r.in.Language != "" && r.in.Language != interpreterLanguage:
		return agent.Invalid("language", "%.50q: want one of %s", r.in.Language, interpreterLanguage)
	case strings.TrimSpace(r.in.Code) == "":
		return agent.Invalid("code", "is required")
	case len(r.in.Command)+len(r.in.Args) > 0:
		return agent.Invalid("command", "the interpreter's is configured")
	}
	r.image, r.command, r.args = c.cfg.Interpreter, []string{interpreterCommand}, []string{inputFolder + "/" + codeFile}
	r.files[codeFile] = []byte(r.in.Code)
	return nil
}

// useImage checks the image of a request.
func (c *Cluster) useImage(r *request) error {
	image, err := parseImage(r.in.Image)
	switch {
	case err != nil:
		return agent.Invalid("image", "%.100q %w", r.in.Image, err)
	case !c.anyImage && !slices.ContainsFunc(c.images, func(rule imageRule) bool { return rule.allows(image) }):
		return agent.FieldErrorf(agent.CodeDenied, "image", "%.200q is not an image that may be run here", r.in.Image)
	case r.in.Code != "" || r.in.Language != "":
		return agent.Invalid("code", "is for the interpreter alone")
	}
	r.image = image.String() // in full, so that nodes cannot read a short name as another image
	return nil
}

func (r *request) check() error {
	size := 0
	for _, content := range r.files {
		size += len(content)
	}
	switch {
	case size > MaxInput:
		return agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", size, MaxInput)
	case !bytes.HasPrefix(bytes.TrimSpace(r.files[inputFile]), []byte("{")):
		return agent.Invalid("input", "want an object")
	}
	if err := checkWords(r.in.Command, r.in.Args); err != nil {
		return err
	}
	return checkEnv(r.in.Env)
}

func checkWords(command, args []string) error {
	if n := len(command) + len(args); n > maxWords {
		return agent.FieldErrorf(agent.CodeOverflow, "args", "command and args are %d words, at most %d", n, maxWords)
	}
	size := 0
	for _, list := range []struct {
		field string
		words []string
	}{{"command", command}, {"args", args}} {
		for i, word := range list.words {
			if size += len(word); size > maxText {
				return agent.FieldErrorf(agent.CodeOverflow, list.field, "command and args are more than %d bytes", maxText)
			}
			if !isText(word) {
				return agent.Invalid(list.field+"["+strconv.Itoa(i)+"]", "has a NUL byte or is no UTF-8")
			}
		}
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkEnv(vars map[string]string) error {
	if len(vars) > maxEnv {
		return agent.FieldErrorf(agent.CodeOverflow, "env", "has %d variables, at most %d", len(vars), maxEnv)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		switch size += len(name) + len(value); {
		case !envName.MatchString(name):
			return agent.Invalid("env", "%.50q is no name of a variable", name)
		case isReservedEnv(name):
			return agent.FieldErrorf(agent.CodeDenied, "env."+name, "is set by the runtime")
		case !isText(value):
			return agent.Invalid("env."+name, "has a NUL byte or is no UTF-8")
		case size > maxText:
			return agent.FieldErrorf(agent.CodeOverflow, "env", "is more than %d bytes", maxText)
		}
	}
	return nil
}

// isReservedEnv reports whether a variable is set by the runtime, or could replace the image's own program.
func isReservedEnv(name string) bool {
	return name == "HOME" || name == "TMPDIR" || name == "PATH" || strings.HasPrefix(name, "TURNSTONE_") ||
		strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "KUBERNETES_")
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
