package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completions returns the completions of a command line, without descriptions, and the directive for the shell.
func (b *bench) completions(args ...string) (list []string, directive string) {
	b.t.Helper()
	b.show(0, append([]string{"__complete"}, args...)...)
	for line := range strings.Lines(b.screen.out()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, ":") {
			return list, line
		}
		name, _, _ := strings.Cut(line, "\t")
		list = append(list, name)
	}
	return list, ""
}

func TestCompletion(t *testing.T) {
	b, _ := withEverything(t)
	files, nothing := ":0", ":4"
	for _, c := range []struct {
		args      string // the last word is completed; _ stands for ""
		want      []string
		directive string
	}{
		{"catalog list _", []string{"node", "agent", "tool", "model", "route", "auth", "knowledge"}, nothing},
		{"catalog list agent _", nil, nothing},
		{"catalog get agent _", []string{"analyst", "clerk"}, nothing},
		{"catalog get agent c", []string{"clerk"}, nothing},
		{"catalog get odd _", nil, nothing},
		{"catalog apply _", nil, files},
		{"knowledge add handbook _", nil, files},
		{"chat --agent _", []string{"analyst", "planner", "clerk"}, nothing},
		{"start -a an", []string{"analyst"}, nothing},
		{"doctor --agent _", []string{"analyst", "planner", "clerk"}, nothing},
		{"schedules create x --agent cl", []string{"clerk"}, nothing},
		{"catalog publish analyst _", []string{"analyst", "planner", "clerk"}, nothing},
		{"plan show p", []string{"planner"}, nothing},
		{"schedules show _", []string{"morning"}, nothing}, // only the first page, because a person waits
		{"schedules delete morning _", nil, nothing},
		{"keys rotate _", []string{"aaaaaaaaaaaaaaaa", "cccccccccccccccc", "dddddddddddddddd"}, nothing},
		{"keys revoke c", []string{"cccccccccccccccc"}, nothing},
		{"keys create x --scope audit", []string{"audit.read"}, nothing},
		{"workflows get _", []string{"main"}, nothing},
		{"tools rename f", []string{"fetch_flights"}, nothing},
		{"links delete _", []string{"-1001", "7", "8"}, nothing},
		{"approvals decide _", []string{"a1", "a2"}, nothing},
		{"approvals decide a1 _", []string{"approve", "edit", "reject", "respond"}, nothing},
		{"approvals decide a1 approve _", nil, nothing},
		{"message t x --on-busy _", []string{"queue", "interrupt", "reject"}, nothing},
		{"audit --outcome d", []string{"denied"}, nothing},
		{"usage --group _", []string{"day", "tenant", "user", "agent", "model", "session", "turn", "step", "epoch", "channel"}, nothing},
		{"usage -o _", []string{"text", "json", "csv"}, nothing},
		{"results get -o _", []string{"text", "json", "yaml", "raw"}, nothing},
		{"agents -o _", []string{"text", "json"}, nothing},
		{"tail _", []string{"turn-2", "turn-1"}, nothing},
		{"turns show _", []string{"turn-2", "turn-1"}, nothing},
		{"decide _", []string{"turn-2"}, nothing},
		{"cancel turn-1 _", nil, nothing},
		{"results get turn-1", []string{"turn-1"}, nothing},
		{"results export turn-1 -o _", nil, files},
	} {
		args := strings.Fields(c.args)
		if args[len(args)-1] == "_" {
			args[len(args)-1] = ""
		}
		list, directive := b.completions(args...)
		require.Equal(t, c.want, list, c.args)
		require.Equal(t, c.directive, directive, c.args)
	}
	_, _ = b.completions("chat", "--agent", "")
	require.Contains(t, b.screen.out(), "planner\tMakes plans. All of them.\n", "a description is on one line")
}

// A completion prints neither choices nor an error if the server is slow, cannot be reached, or refuses the caller.
func TestCompletionIsSilent(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) }) // it listens, and never answers
	b, _, _ := withAuth(t)
	b.key = ""
	for _, server := range []string{b.server, "http://" + l.Addr().String(), "nowhere"} {
		list, directive := b.completions("--server", server, "keys", "revoke", "")
		require.Empty(t, list)
		require.Equal(t, ":4", directive)
		require.NotContains(t, b.screen.String(), "Error")
	}
}

func TestCompletionScripts(t *testing.T) {
	b := setup(t)
	for shell, text := range map[string]string{"bash": "__start_starter", "zsh": "#compdef starter", "fish": "complete -c starter", "powershell": "Register-ArgumentCompleter"} {
		b.show(0, "completion", shell)
		require.Contains(t, b.screen.out(), text)
	}
}
