package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const precious = "sk-precious"

// owner is the tenant whose documents refer to secrets in most tests.
const owner = "acme"

func resolver(t *testing.T, cfg Config) *Resolver {
	t.Helper()
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// requireRefused checks that a reference is refused with a code, and that the error does not contain the secret.
func requireRefused(t *testing.T, r *Resolver, ref string, code agent.Code) {
	t.Helper()
	v, err := r.Reveal(t.Context(), owner, ref)
	require.Equal(t, code, agent.CodeOf(err), "%s: %v", ref, err)
	require.Empty(t, v)
	require.NotContains(t, err.Error(), precious)
}

func TestVariables(t *testing.T) {
	t.Parallel()
	r := resolver(t, Config{
		Env: []string{
			"CRM_KEY=" + precious, "CRM_KEY=second", "OPENAI_API_KEY=" + precious, "LANGFUSE_SECRET_KEY=" + precious, "TURNSTONE_SECRET_X=x=y\n", "EMPTY=", "LINE=\n", "MALFORMED", "MINE_A=a", "MINE_B=b",
			"DATABASE_URL=" + precious, "TEMPORAL_API_KEY=" + precious, "TURNSTONE_LLM_API_KEY=" + precious, "TURNSTONE_SECRET=" + precious,
			"PGPASSWORD=" + precious, "AWS_SECRET_ACCESS_KEY=" + precious, "REDIS_URL=" + precious,
			"AZURE_STORAGE_KEY=" + precious, "GOOGLE_APPLICATION_CREDENTIALS=" + precious, "BIG=" + strings.Repeat("x", MaxBytes+1),
		},
		AllowEnv: []string{owner + "=*"},
	})
	for ref, want := range map[string]string{"env:CRM_KEY": precious, "env:TURNSTONE_SECRET_X": "x=y", "env:MINE_A": "a"} {
		v, err := r.Reveal(t.Context(), owner, ref)
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
	for _, name := range []string{
		"DATABASE_URL", "TEMPORAL_API_KEY", "TURNSTONE_LLM_API_KEY", "TURNSTONE_SECRET", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "REDIS_URL",
		"AZURE_STORAGE_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LANGFUSE_SECRET_KEY", "OTEL_EXPORTER_OTLP_HEADERS",
		"TURNSTONE_ABSENT",
	} {
		requireRefused(t, r, "env:"+name, agent.CodeDenied)
	}
	for _, name := range []string{"ABSENT", "EMPTY", "LINE", "MALFORMED"} {
		requireRefused(t, r, "env:"+name, agent.CodeNotFound)
	}
	for _, ref := range []string{"", precious, "env:", "env:" + precious, "env:A B", "ENV:CRM_KEY", "vault:x", "file:", "file:x", "file:/a/../b"} {
		requireRefused(t, r, ref, agent.CodeInvalid)
	}
	requireRefused(t, r, "env:BIG", agent.CodeOverflow)
	_, err := r.Reveal(t.Context(), owner, "env:ABSENT")
	require.EqualError(t, err, "read secret env:ABSENT: not set, or empty")
}

// A tenant's documents may refer to the secrets that the operator granted to that tenant, and to no others.
func TestGrants(t *testing.T) {
	t.Parallel()
	dir, theirs := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "key"), "file")
	write(t, filepath.Join(theirs, "key"), precious)
	r := resolver(t, Config{
		Env:      []string{"ACME_A=a", "ACME=b", "GLOBEX_A=" + precious, "TURNSTONE_SECRET_A=" + precious, "DATABASE_URL=" + precious, "ONE=1"},
		AllowEnv: []string{"TURNSTONE_SECRET_*", "acme=ACME_*", "acme=ONE", "acme=DATABASE_URL", "globex=GLOBEX_*", "*=ONE"},
		Folders:  []string{theirs, "acme=" + dir},
	})
	granted := map[string][]string{
		"acme": {"env:ACME_A", "env:ONE", "file:" + dir + "/key"}, "globex": {"env:GLOBEX_A"}, "initech": nil, "": nil,
		agent.DefaultTenant: {"env:TURNSTONE_SECRET_A", "file:" + theirs + "/key"},
		agent.SharedTenant:  {"env:TURNSTONE_SECRET_A", "env:ONE", "file:" + theirs + "/key"},
	}
	for tenant, may := range granted {
		for _, ref := range []string{
			"env:ACME_A", "env:ACME", "env:GLOBEX_A", "env:TURNSTONE_SECRET_A", "env:DATABASE_URL", "env:ONE", "env:ABSENT", "env:PATH",
			"file:" + dir + "/key", "file:" + theirs + "/key", "file:/run/../etc/passwd", "file:/etc/passwd",
		} {
			v, err := r.Reveal(t.Context(), tenant, ref)
			require.Equal(t, slices.Contains(may, ref), err == nil, "%q %s: %v", tenant, ref, err)
			require.Equal(t, err == nil, r.Allowed(tenant, ref) == nil, "%q %s: publishing and use agree", tenant, ref)
			require.Equal(t, err == nil, v != "", "%q %s", tenant, ref)
		}
	}
	for tenant, code := range map[string]agent.Code{"acme": agent.CodeDenied, agent.DefaultTenant: agent.CodeNotFound, agent.SharedTenant: agent.CodeNotFound} {
		_, err := r.Reveal(t.Context(), tenant, "file:/run/secrets/absent/for/certain")
		require.Equal(t, code, agent.CodeOf(err), "%q: %v", tenant, err)
	}
	_, err := r.Reveal(t.Context(), "acme", "env:GLOBEX_A")
	require.EqualError(t, err, `read secret env:GLOBEX_A: catalog.secret_env grants no such variable to documents of tenant "acme"`)
	_, err = r.Reveal(t.Context(), "acme", "file:/etc/passwd")
	require.EqualError(t, err, `read secret file:/etc/passwd: the file is in no folder that catalog.secret_folders grants to documents of tenant "acme"`)
}

func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	for message, cfg := range map[string]Config{
		`allow_env: want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got "A B"`:     {AllowEnv: []string{"A B"}},
		`allow_env: want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got "*_KEY"`:   {AllowEnv: []string{"*_KEY"}},
		`allow_env: want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got "acme="`:   {AllowEnv: []string{"acme="}},
		`allow_env: want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got "=ACME_*"`: {AllowEnv: []string{"=ACME_*"}},
		`folders: want an absolute path, or tenant=/path, got "secrets"`:              {Folders: []string{"secrets"}},
		`folders: want an absolute path, or tenant=/path, got "acme=secrets"`:         {Folders: []string{"acme=secrets"}},
		`folders: want an absolute path, or tenant=/path, got "a b=/secrets"`:         {Folders: []string{"a b=/secrets"}},
	} {
		_, err := New(cfg)
		require.EqualError(t, err, message)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestFiles(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, precious)
	dir := t.TempDir()
	r := resolver(t, Config{Folders: []string{owner + "=" + dir}})
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("key"), precious+"\r\n\n")
	write(t, path("deep/er/key"), " two\nlines ")
	write(t, path("..data/key"), "kubernetes")
	write(t, path("empty"), "\n")
	write(t, path("full"), strings.Repeat("x", MaxBytes))
	write(t, path("big"), strings.Repeat("x", MaxBytes+1))
	require.NoError(t, os.Symlink("..data/key", path("linked")))
	require.NoError(t, os.Symlink(outside, path("escape")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), path("folder")))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))

	for name, want := range map[string]string{
		"key": precious, "deep/er/key": " two\nlines ", "linked": "kubernetes", "full": strings.Repeat("x", MaxBytes),
	} {
		v, err := r.Reveal(t.Context(), owner, "file:"+path(name))
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
	for name, code := range map[string]agent.Code{
		"absent": agent.CodeNotFound, "empty": agent.CodeNotFound, "deep": agent.CodeNotFound, "pipe": agent.CodeNotFound,
		"key/below": agent.CodeNotFound, "big": agent.CodeOverflow, "escape": agent.CodeDenied, "folder/outside": agent.CodeDenied, "": agent.CodeDenied,
	} {
		requireRefused(t, r, "file:"+path(name), code)
	}
	requireRefused(t, r, "file:"+outside, agent.CodeDenied)
	requireRefused(t, r, "file:"+dir+"-sibling/key", agent.CodeDenied)
	requireRefused(t, r, "file:"+dir+"/../"+filepath.Base(dir)+"/key", agent.CodeInvalid)
	requireRefused(t, r, "file:/"+strings.Repeat("x", maxPath), agent.CodeInvalid)
	requireRefused(t, r, "file:/a\x00", agent.CodeInvalid)
	_, err := r.Reveal(t.Context(), owner, "file:"+path("absent"))
	require.EqualError(t, err, "read secret file:"+path("absent")+": no such file or directory")
	_, err = r.Reveal(t.Context(), owner, "file:"+path("pipe"))
	require.EqualError(t, err, "read secret file:"+path("pipe")+": not a regular file")
}

// A file that was replaced, as Kubernetes does, has the new secret.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := resolver(t, Config{Folders: []string{owner + "=" + dir}})
	path := filepath.Join(dir, "key")
	for _, want := range []string{"first", "other"} { // with the same length and the same time of modification
		next := filepath.Join(dir, "next")
		write(t, next, want)
		require.NoError(t, os.Rename(next, path))
		v, err := r.Reveal(t.Context(), owner, "file:"+path)
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
}

// The identity of the process, which a platform mounts, is hidden from documents unless its folder is granted.
func TestProcessIdentityIsHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "kubernetes.io", "serviceaccount", "token")
	write(t, token, precious)
	write(t, filepath.Join(dir, "key"), "mine")
	hidden := folder{path: dir, hidden: []string{"kubernetes.io"}}
	r := &Resolver{folders: map[string][]folder{owner: {hidden, {path: filepath.Dir(dir)}}}}
	requireRefused(t, r, "file:"+token, agent.CodeDenied)
	v, err := r.Reveal(t.Context(), owner, "file:"+filepath.Join(dir, "key"))
	require.NoError(t, err)
	require.Equal(t, "mine", v)

	all, err := grantedFolders([]string{"/var/run/secrets/kubernetes.io/mine/", "/etc/keys"})
	require.NoError(t, err)
	require.Equal(t, all[agent.DefaultTenant], all[agent.SharedTenant])
	require.Len(t, all, 2, "other tenants have no folders")
	paths := make([]string, len(all[agent.DefaultTenant]))
	for i, f := range all[agent.DefaultTenant] {
		paths[i] = f.path
		require.Equal(t, strings.HasSuffix(f.path, "run/secrets"), len(f.hidden) > 0)
	}
	require.Equal(t, []string{"/var/run/secrets/kubernetes.io/mine", "/var/run/secrets", "/run/secrets", "/etc/keys"}, paths)
	_, err = resolver(t, Config{}).Reveal(t.Context(), agent.DefaultTenant, "file:/run/secrets/kubernetes.io/serviceaccount/token")
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := resolver(t, Config{Env: []string{"A=a"}}).Reveal(ctx, owner, "env:A")
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestValueIsRedacted(t *testing.T) {
	t.Parallel()
	v := Value(precious)
	for _, verb := range []string{"%v", "%s", "%q", "%x", "%X", "%#v", "%+v", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, v), precious)
		require.NotContains(t, fmt.Sprintf(verb, struct{ V Value }{v}), precious)
	}
	require.Equal(t, Redacted, v.String())
	require.Equal(t, `"[redacted]"`, fmt.Sprintf("%#v", v))
	require.Empty(t, Value("").String())
	text, err := json.Marshal(map[string]Value{"v": v})
	require.NoError(t, err)
	require.JSONEq(t, `{"v":"[redacted]"}`, string(text))
	require.Equal(t, precious, v.Reveal())
}
