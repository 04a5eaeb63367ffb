// Package secret resolves references to secrets in catalog documents: env:NAME and file:/path. The author of a document chooses the reference and where
// the secret is sent. So the documents of a tenant may refer only to the variables and folders that the operator grants to the tenant, and never to
// the runtime's own credentials. Errors name the reference and never the secret.
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

// Config has the secrets, and the grants to refer to them. A grant that begins with "tenant=" is for the documents of that tenant. Any other grant is
// for the operator's documents, which are those of [agent.DefaultTenant] and [agent.SharedTenant].
type Config struct {
	Env      []string // as in os.Environ; nil: none
	AllowEnv []string // grants of variables: NAME or PREFIX*
	Folders  []string // grants of absolute paths; the operator's documents may use /run/secrets and /var/run/secrets as well
}

// Resolver returns secrets by reference. It is safe for concurrent use.
type Resolver struct {
	env     map[string]string
	allow   map[string][]string // by tenant: names of variables, or PREFIX*
	folders map[string][]folder // by tenant: the longest path first
}

// New returns a resolver. The error is [agent.CodeInvalid] and names the entry.
func New(cfg Config) (*Resolver, error) {
	r := &Resolver{env: make(map[string]string, len(cfg.Env)), allow: map[string][]string{}}
	for _, entry := range cfg.Env {
		name, value, ok := strings.Cut(entry, "=")
		if _, isDuplicate := r.env[name]; ok && !isDuplicate { // the first one wins, as in os.Getenv
			r.env[name] = value
		}
	}
	for _, entry := range cfg.AllowEnv {
		tenants, pattern, err := splitGrant(entry)
		if err != nil || pattern != "*" && !envName.MatchString(strings.TrimSuffix(pattern, "*")) {
			return nil, agent.Invalid("allow_env", "want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got %q", entry)
		}
		for _, tenant := range tenants {
			r.allow[tenant] = append(r.allow[tenant], pattern)
		}
	}
	var err error
	r.folders, err = grantedFolders(cfg.Folders)
	return r, err
}

// splitGrant returns the tenants of a grant, and the pattern or path that it grants.
func splitGrant(entry string) (tenants []string, granted string, err error) {
	tenant, granted, hasTenant := strings.Cut(entry, "=")
	switch {
	case strings.HasPrefix(entry, "/"), !hasTenant: // a path may contain a =
		return []string{agent.DefaultTenant, agent.SharedTenant}, entry, nil
	case tenant != agent.SharedTenant && !agent.ValidName(tenant):
		return nil, "", agent.Invalid("tenant", "want a tenant's name or *, got %q", tenant)
	default:
		return []string{tenant}, granted, nil
	}
}

// Reveal returns the secret to which a document of a tenant refers. It reads a file each time, so that a changed secret takes effect immediately.
//
// Errors: [agent.CodeInvalid] if ref is not a reference; [agent.CodeDenied] if the tenant has no grant for it; [agent.CodeNotFound] if the variable or
// file does not exist or is empty; [agent.CodeOverflow] above [MaxBytes]; [agent.CodeUnavailable] if a file cannot be read.
func (r *Resolver) Reveal(ctx context.Context, tenant, ref string) (string, error) {
	if err := agent.Interrupted(ctx, "read secret"); err != nil {
		return "", err
	}
	if name, ok := strings.CutPrefix(ref, schemeEnv); ok {
		if err := r.allowVariable(tenant, name); err != nil {
			return "", err
		}
		return trimSecret("read secret "+ref, []byte(r.env[name]))
	}
	if path, ok := strings.CutPrefix(ref, schemeFile); ok {
		return r.readFile(tenant, path)
	}
	// The text is not quoted, because it may be the secret itself, in the wrong place.
	return "", agent.Errorf(agent.CodeInvalid, "read secret", "want a reference, env:NAME or file:/path")
}

// envName matches the name of a variable. Text that does not match may be a secret in the wrong place, and is not quoted.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// runtimeEnv returns the patterns of the variables with credentials and settings of the runtime and of its libraries. No grant covers them.
func runtimeEnv() []string {
	return []string{
		"DATABASE_URL", "TEMPORAL_*", "TURNSTONE_*", "PG*", "REDIS_*", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OTEL_*", "LANGFUSE_*",
		"AWS_*", "AZURE_STORAGE_*", "AZURE_CLIENT_*", "GOOGLE_APPLICATION_CREDENTIALS",
	}
}

// Allowed returns an error if a document of a tenant may not use a reference. The secret need not exist in this process.
func (r *Resolver) Allowed(tenant, ref string) error {
	if name, ok := strings.CutPrefix(ref, schemeEnv); ok {
		return r.allowVariable(tenant, name)
	}
	if path, ok := strings.CutPrefix(ref, schemeFile); ok {
		_, _, err := r.findFile(tenant, path)
		return err
	}
	return agent.Errorf(agent.CodeInvalid, "read secret", "want env:NAME or file:/path")
}

// secretEnvPrefix is the prefix of the variables that are made for documents.
const secretEnvPrefix = "TURNSTONE_SECRET_"

func (r *Resolver) allowVariable(tenant, name string) error {
	if !envName.MatchString(name) {
		return agent.Errorf(agent.CodeInvalid, "read secret", "want the name of a variable after env:")
	}
	op := "read secret " + schemeEnv + name
	switch {
	case matchesAny(runtimeEnv(), name) && !strings.HasPrefix(name, secretEnvPrefix):
		return agent.Errorf(agent.CodeDenied, op, "the variable is the runtime's own; use one that begins with %s", secretEnvPrefix)
	case !matchesAny(r.allow[tenant], name):
		return agent.Errorf(agent.CodeDenied, op, "catalog.secret_env grants no such variable to documents of tenant %q", tenant)
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return name == p || wild && strings.HasPrefix(name, prefix)
	})
}

// trimSecret returns content as a secret, without the line break that editors leave at its end.
func trimSecret(op string, content []byte) (string, error) {
	if len(content) > MaxBytes {
		return "", agent.Errorf(agent.CodeOverflow, op, "larger than %d bytes", MaxBytes)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", agent.Errorf(agent.CodeNotFound, op, "not set, or empty")
	}
	return secret, nil
}
