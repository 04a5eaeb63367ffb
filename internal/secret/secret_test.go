package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const precious = "sk-precious"

func resolver(t *testing.T, cfg Config) *Resolver {
	t.Helper()
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// refused checks an error's code, and that it shows no secret.
func refused(t *testing.T, r *Resolver, ref string, code agent.Code) {
	t.Helper()
	v, err := r.Resolve(t.Context(), ref)
	require.Equal(t, code, agent.CodeOf(err), "%s: %v", ref, err)
	require.Empty(t, v.Reveal())
	require.NotContains(t, err.Error(), precious)
}

func TestVariables(t *testing.T) {
	t.Parallel()
	r := resolver(t, Config{
		Env: []string{
			"OPENAI_API_KEY=" + precious, "OPENAI_API_KEY=second", "TURNSTONE_SECRET_X=x=y\n", "EMPTY=", "LINE=\n", "MALFORMED", "MINE_A=a", "MINE_B=b",
			"DATABASE_URL=" + precious, "TEMPORAL_API_KEY=" + precious, "TURNSTONE_LLM_API_KEY=" + precious, "TURNSTONE_SECRET=" + precious,
			"PGPASSWORD=" + precious, "AWS_SECRET_ACCESS_KEY=" + precious, "REDIS_URL=" + precious,
			"AZURE_STORAGE_KEY=" + precious, "GOOGLE_APPLICATION_CREDENTIALS=" + precious, "BIG=" + strings.Repeat("x", MaxBytes+1),
		},
		DenyEnv: []string{"MINE_B"},
	})
	for ref, want := range map[string]string{"env:OPENAI_API_KEY": precious, "env:TURNSTONE_SECRET_X": "x=y", "env:MINE_A": "a"} {
		v, err := r.Resolve(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, want, v.Reveal())
		text, err := r.Reveal(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	for _, name := range []string{
		"DATABASE_URL", "TEMPORAL_API_KEY", "TURNSTONE_LLM_API_KEY", "TURNSTONE_SECRET", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "REDIS_URL",
		"AZURE_STORAGE_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "MINE_B", "TURNSTONE_ABSENT",
	} {
		refused(t, r, "env:"+name, agent.CodeDenied)
	}
	for _, name := range []string{"ABSENT", "EMPTY", "LINE", "MALFORMED"} {
		refused(t, r, "env:"+name, agent.CodeNotFound)
	}
	for _, ref := range []string{"", precious, "env:", "env:" + precious, "env:A B", "ENV:OPENAI_API_KEY", "vault:x", "file:", "file:x", "file:/a/../b"} {
		refused(t, r, ref, agent.CodeInvalid)
	}
	refused(t, r, "env:BIG", agent.CodeOverflow)
	_, err := r.Resolve(t.Context(), "env:ABSENT")
	require.EqualError(t, err, "read secret env:ABSENT: not set, or empty")
}

func TestVariablesThatAreAllowed(t *testing.T) {
	t.Parallel()
	r := resolver(t, Config{
		Env:      []string{"ACME_A=a", "ACME_B=b", "OTHER=o", "DATABASE_URL=" + precious},
		AllowEnv: []string{"ACME_*", "DATABASE_URL"}, DenyEnv: []string{"ACME_B*"},
	})
	v, err := r.Resolve(t.Context(), "env:ACME_A")
	require.NoError(t, err)
	require.Equal(t, "a", v.Reveal())
	for _, name := range []string{"ACME_B", "OTHER", "DATABASE_URL"} {
		refused(t, r, "env:"+name, agent.CodeDenied)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]Config{
		`allow_env: want the name of a variable, or its beginning and a *, got "A B"`:  {AllowEnv: []string{"A B"}},
		`deny_env: want the name of a variable, or its beginning and a *, got "*_KEY"`: {DenyEnv: []string{"*_KEY"}},
		`folders: want an absolute path, got "secrets"`:                                {Folders: []string{"secrets"}},
	} {
		_, err := New(cfg)
		require.EqualError(t, err, says)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	_, err := New(Config{DenyEnv: []string{"*"}})
	require.NoError(t, err)
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
	r := resolver(t, Config{Folders: []string{dir}})
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("key"), precious+"\r\n\n")
	write(t, at("deep/er/key"), " two\nlines ")
	write(t, at("..data/key"), "kubernetes")
	write(t, at("empty"), "\n")
	write(t, at("full"), strings.Repeat("x", MaxBytes))
	write(t, at("big"), strings.Repeat("x", MaxBytes+1))
	require.NoError(t, os.Symlink("..data/key", at("linked")))
	require.NoError(t, os.Symlink(outside, at("escape")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), at("folder")))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))

	for name, want := range map[string]string{
		"key": precious, "deep/er/key": " two\nlines ", "linked": "kubernetes", "full": strings.Repeat("x", MaxBytes),
	} {
		v, err := r.Resolve(t.Context(), "file:"+at(name))
		require.NoError(t, err)
		require.Equal(t, want, v.Reveal())
	}
	for name, code := range map[string]agent.Code{
		"absent": agent.CodeNotFound, "empty": agent.CodeNotFound, "deep": agent.CodeNotFound, "pipe": agent.CodeNotFound,
		"key/below": agent.CodeNotFound, "big": agent.CodeOverflow, "escape": agent.CodeDenied, "folder/outside": agent.CodeDenied, "": agent.CodeDenied,
	} {
		refused(t, r, "file:"+at(name), code)
	}
	refused(t, r, "file:"+outside, agent.CodeDenied)
	refused(t, r, "file:"+dir+"-sibling/key", agent.CodeDenied)
	refused(t, r, "file:"+dir+"/../"+filepath.Base(dir)+"/key", agent.CodeInvalid)
	refused(t, r, "file:/"+strings.Repeat("x", maxPath), agent.CodeInvalid)
	refused(t, r, "file:/a\x00", agent.CodeInvalid)
	_, err := r.Resolve(t.Context(), "file:"+at("absent"))
	require.EqualError(t, err, "read secret file:"+at("absent")+": no such file or directory")
	_, err = r.Resolve(t.Context(), "file:"+at("pipe"))
	require.EqualError(t, err, "read secret file:"+at("pipe")+": not a regular file")
}

// A secret that is replaced, as Kubernetes does by a link, is the new one.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := resolver(t, Config{Folders: []string{dir}})
	path := filepath.Join(dir, "key")
	for _, want := range []string{"first", "other"} { // of one length, in one instant
		next := filepath.Join(dir, "next")
		write(t, next, want)
		require.NoError(t, os.Rename(next, path))
		v, err := r.Resolve(t.Context(), "file:"+path)
		require.NoError(t, err)
		require.Equal(t, want, v.Reveal())
	}
}

// What a platform mounts for the process itself is nobody else's, unless its folder is configured.
func TestIdentitiesAreHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "kubernetes.io", "serviceaccount", "token")
	write(t, token, precious)
	write(t, filepath.Join(dir, "key"), "mine")
	hidden := folder{path: dir, hidden: []string{"kubernetes.io"}}
	r := &Resolver{folders: []folder{hidden, {path: filepath.Dir(dir)}}}
	refused(t, r, "file:"+token, agent.CodeDenied)
	v, err := r.Resolve(t.Context(), "file:"+filepath.Join(dir, "key"))
	require.NoError(t, err)
	require.Equal(t, "mine", v.Reveal())

	all, err := foldersOf([]string{"/var/run/secrets/kubernetes.io/mine/", "/etc/keys"})
	require.NoError(t, err)
	paths := make([]string, len(all))
	for i, f := range all {
		paths[i] = f.path
		require.Equal(t, strings.HasSuffix(f.path, "run/secrets"), len(f.hidden) > 0)
	}
	require.Equal(t, []string{"/var/run/secrets/kubernetes.io/mine", "/var/run/secrets", "/run/secrets", "/etc/keys"}, paths)
	refused(t, resolver(t, Config{}), "file:/run/secrets/kubernetes.io/serviceaccount/token", agent.CodeDenied)
	refused(t, resolver(t, Config{}), "file:/etc/passwd", agent.CodeDenied)
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := resolver(t, Config{Env: []string{"A=a"}}).Resolve(ctx, "env:A")
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestValueShowsNothing(t *testing.T) {
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
