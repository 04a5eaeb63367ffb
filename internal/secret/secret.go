// Package secret turns references that a catalog document may hold into secrets: env:NAME and file:/path (DESIGN §7). Whoever writes a
// document chooses the reference, and where the secret is sent. So the runtime's own credentials cannot be named, and files can be
// in a few folders only. Errors name the reference and never the secret.
package secret

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// MaxBytes bounds a secret.
const MaxBytes = 64 << 10

// The schemes of references.
const (
	schemeEnv  = "env:"
	schemeFile = "file:"
)

// Config says which secrets there are.
type Config struct {
	Env      []string // as in os.Environ; nil: none
	AllowEnv []string // names, or PREFIX*; empty: all that are not denied
	DenyEnv  []string // names, or PREFIX*, besides the runtime's own
	Folders  []string // absolute, besides /run/secrets and /var/run/secrets
}

// Resolver finds secrets by reference. It is safe for concurrent use.
type Resolver struct {
	env         map[string]string
	allow, deny []string
	folders     []folder
}

// New checks the configuration. The error is [agent.CodeInvalid] and names the entry.
func New(cfg Config) (*Resolver, error) {
	r := &Resolver{env: make(map[string]string, len(cfg.Env)), allow: cfg.AllowEnv, deny: cfg.DenyEnv}
	for _, entry := range cfg.Env {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := r.env[name]; ok && !twice { // the first counts, as for os.Getenv
			r.env[name] = value
		}
	}
	for field, patterns := range map[string][]string{"allow_env": cfg.AllowEnv, "deny_env": cfg.DenyEnv} {
		for _, p := range patterns {
			if p != "*" && !envName.MatchString(strings.TrimSuffix(p, "*")) {
				return nil, agent.Invalid(field, "want the name of a variable, or its beginning and a *, got %q", p)
			}
		}
	}
	var err error
	r.folders, err = foldersOf(cfg.Folders)
	return r, err
}

// Resolve returns the secret of a reference. Files are read each time, so a secret that was replaced is the new one from then on.
//
// Errors: [agent.CodeInvalid] for what is no reference; [agent.CodeDenied] for one that documents may not use; [agent.CodeNotFound]
// when there is no such variable or file, or it is empty; [agent.CodeOverflow] above [MaxBytes]; [agent.CodeUnavailable] when a file
// cannot be read.
func (r *Resolver) Resolve(ctx context.Context, ref string) (Value, error) {
	if err := agent.Interrupted(ctx, "read secret"); err != nil {
		return "", err
	}
	if name, ok := strings.CutPrefix(ref, schemeEnv); ok {
		return r.variable(name)
	}
	if path, ok := strings.CutPrefix(ref, schemeFile); ok {
		return r.file(path)
	}
	// Not quoted: somebody may have put the secret where its reference belongs.
	return "", agent.Errorf(agent.CodeInvalid, "read secret", "want a reference, env:NAME or file:/path")
}

// Reveal is [Resolver.Resolve] for the one who sends the secret.
func (r *Resolver) Reveal(ctx context.Context, ref string) (string, error) {
	v, err := r.Resolve(ctx, ref)
	return v.Reveal(), err
}

// envName is what a variable is called; what does not match may be a secret in the wrong place and is not quoted.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// ownEnv are the runtime's own credentials and settings, and those of the libraries that it reaches databases and stores with.
func ownEnv() []string {
	return []string{
		"DATABASE_URL", "TEMPORAL_*", "TURNSTONE_*", "PG*", "REDIS_*",
		"AWS_*", "AZURE_STORAGE_*", "AZURE_CLIENT_*", "GOOGLE_APPLICATION_CREDENTIALS",
	}
}

// Allowed says why a reference may not be used in a document: what it is, not whether the secret is there, which another process may know
// better.
func (r *Resolver) Allowed(ref string) error {
	if name, ok := strings.CutPrefix(ref, schemeEnv); ok {
		return r.allowedVariable(name)
	}
	if path, ok := strings.CutPrefix(ref, schemeFile); ok {
		_, _, err := r.place(path)
		return err
	}
	return agent.Errorf(agent.CodeInvalid, "read secret", "want env:NAME or file:/path")
}

// givenEnv begins the variables that exist to be named in documents.
const givenEnv = "TURNSTONE_SECRET_"

func (r *Resolver) variable(name string) (Value, error) {
	if err := r.allowedVariable(name); err != nil {
		return "", err
	}
	return bounded("read secret "+schemeEnv+name, []byte(r.env[name]))
}

func (r *Resolver) allowedVariable(name string) error {
	if !envName.MatchString(name) {
		return agent.Errorf(agent.CodeInvalid, "read secret", "want the name of a variable behind env:")
	}
	op := "read secret " + schemeEnv + name
	own := matches(ownEnv(), name) && !strings.HasPrefix(name, givenEnv)
	switch {
	case own:
		return agent.Errorf(agent.CodeDenied, op, "the variable is the runtime's own; one that begins with %s is not", givenEnv)
	case matches(r.deny, name), len(r.allow) > 0 && !matches(r.allow, name):
		return agent.Errorf(agent.CodeDenied, op, "the configuration does not let documents use this variable")
	}
	return nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return name == p || wild && strings.HasPrefix(name, prefix)
	})
}

// bounded makes a secret out of content, without the line break that editors leave at its end.
func bounded(op string, content []byte) (Value, error) {
	if len(content) > MaxBytes {
		return "", agent.Errorf(agent.CodeOverflow, op, "larger than %d bytes", MaxBytes)
	}
	v := Value(strings.TrimRight(string(content), "\r\n"))
	if v == "" {
		return "", agent.Errorf(agent.CodeNotFound, op, "not set, or empty")
	}
	return v, nil
}
