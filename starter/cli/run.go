package cli

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// Run runs a command line of this process, which is called by the name program, and returns its exit code. The other commands are listed beside
// its own.
func Run(program string, args []string, others ...*cobra.Command) int {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{
		program: program, others: others, in: os.Stdin, out: os.Stdout, errOut: os.Stderr, interrupts: interrupts, server: os.Getenv("TURNSTONE_SERVER"),
		key: os.Getenv("TURNSTONE_KEY"), env: os.Environ(),
		redis: os.Getenv("TURNSTONE_JOBS_REDIS_URL"), terminals: [2]bool{term.IsTerminal(int(os.Stdout.Fd())), term.IsTerminal(int(os.Stderr.Fd()))},
		color: term.IsTerminal(int(os.Stdout.Fd())) && wantsColor(os.Environ()), version: cmdline.ReadVersion(program),
	}
	if a.terminals[0] {
		a.width, _, _ = term.GetSize(int(os.Stdout.Fd())) // 0 if it has none
	}
	return a.run(context.Background(), args)
}
