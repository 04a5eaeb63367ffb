package cli

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// Run runs a command line of the named program and returns the exit code. The help lists the other commands beside those of this package.
func Run(program string, args []string, others ...*cobra.Command) int {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{
		program: program, otherCommands: others, in: os.Stdin, out: os.Stdout, errOut: os.Stderr, interrupts: interrupts, env: os.Environ(),
		server: os.Getenv("TURNSTONE_SERVER"), key: os.Getenv("TURNSTONE_KEY"), redis: os.Getenv("TURNSTONE_JOBS_REDIS_URL"),
		outIsTerminal: term.IsTerminal(int(os.Stdout.Fd())), errIsTerminal: term.IsTerminal(int(os.Stderr.Fd())), version: cmdline.ReadVersion(program),
	}
	if a.outIsTerminal {
		a.useColor = wantsColor(a.env)
		a.width, _, _ = term.GetSize(int(os.Stdout.Fd())) // stays 0 if the terminal does not tell its size
	}
	return a.run(context.Background(), args)
}
