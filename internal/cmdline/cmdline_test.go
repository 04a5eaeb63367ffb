package cmdline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// program returns a command line with two commands, one of which has more flags than help shows.
func program(run func(context.Context) error) *cobra.Command {
	root := &cobra.Command{Use: "program", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	work := &cobra.Command{
		Use: "work", Short: "program work does it", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
	for i := range maxFlags + 5 {
		work.Flags().Bool(fmt.Sprintf("flag-%d", i), false, "")
	}
	root.AddCommand(work, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}})
	root.PersistentFlags().String("server", "", "")
	Finish(root, []string{"help", "flag-3"}, nil)
	return root
}

func TestRun(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for args, c := range map[string]struct {
		ctx  context.Context
		err  error
		code int
		want string // standard error
	}{
		"work x":         {t.Context(), nil, 0, ""},
		"work x -":       {t.Context(), nil, 1, "Error: accepts 1 arg(s), received 2\n"},
		"wrok":           {t.Context(), nil, 1, `Error: unknown command "wrok" for "program"; did you mean work?` + "\n"},
		"nothing":        {t.Context(), nil, 1, `Error: unknown command "nothing" for "program"` + "\n"},
		"list --sevrer=": {t.Context(), nil, 1, "Error: unknown flag: --sevrer; did you mean --server?\n"},
		"list --nothing": {t.Context(), nil, 1, "Error: unknown flag: --nothing\n"},
		"work failure":   {t.Context(), errors.New("it broke"), 1, "Error: it broke\n"},
		"work cancelled": {cancelled, fmt.Errorf("start: %w", context.Canceled), 130, ""},
	} {
		t.Run(args, func(t *testing.T) {
			var errOut bytes.Buffer
			root := program(func(context.Context) error { return c.err })
			require.Equal(t, c.code, Run(c.ctx, root, strings.Fields(args), &errOut))
			require.Equal(t, c.want, errOut.String())
		})
	}
}

func TestHelpFitsAScreen(t *testing.T) {
	help := func(args ...string) string {
		var out bytes.Buffer
		root := program(nil)
		root.SetOut(&out)
		require.Equal(t, 0, Run(t.Context(), root, args, &out), out.String())
		return out.String()
	}
	short := help("work", "--help")
	require.Contains(t, short, "--flag-3 ")
	require.NotContains(t, short, "--flag-4")
	require.Contains(t, short, "25 more flags: program work --help-all\n")
	all := help("work", "--help-all")
	require.Contains(t, all, "--flag-4")
	require.Contains(t, all, "--server")
	require.NotContains(t, all, "more flags")
	require.NotContains(t, help("list", "--help"), "more flags")
}

func TestTypos(t *testing.T) {
	for words, want := range map[[2]string]int{
		{"chat", "chat"}: 0, {"chta", "chat"}: 1, {"cht", "chat"}: 1, {"chatt", "chat"}: 1, {"chit", "chat"}: 1, {"", "abc"}: 3, {"sevrer", "server"}: 1,
		{"abc", "xyz"}: 3,
	} {
		require.Equal(t, want, typos(words[0], words[1]), words)
	}
}

func TestRename(t *testing.T) {
	root := program(nil)
	Rename(root, "program", "turnstone")
	work, _, err := root.Find([]string{"work"})
	require.NoError(t, err)
	require.Equal(t, "turnstone work does it", work.Short)
}

func TestVersionString(t *testing.T) {
	require.Equal(t, "worker v1.2.3 (commit abc, go1.26)", Version{"worker", "v1.2.3", "abc", "go1.26"}.String())
	require.Equal(t, "worker (devel) (go1.26)", Version{"worker", "(devel)", "", "go1.26"}.String())
	require.Contains(t, ReadVersion("worker").Go, "go1.")
}
