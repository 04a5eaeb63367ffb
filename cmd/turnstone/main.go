// Command turnstone is Turnstone in one program: the embedded stack, the worker, and the client of a running server.
//
//	turnstone demo        # starts everything, runs a durable turn, ends
//	turnstone dev         # keeps everything running until Ctrl-C
//	turnstone worker      # runs turns on a Temporal server
//	turnstone chat "…"    # and every other command of starter
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	_ "github.com/turnstone-run/turnstone/clouds" // gs:// and azblob://
	dev "github.com/turnstone-run/turnstone/dev/cli"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	starter "github.com/turnstone-run/turnstone/starter/cli"
	worker "github.com/turnstone-run/turnstone/worker/cli"
)

const program = "turnstone"

func main() { os.Exit(run(os.Args[1:])) }

// run runs a command line and returns its exit code.
func run(args []string) int {
	if part, rest := partOf(args); part != nil {
		return part(rest)
	}
	return starter.Run(program, args, listed("dev", "Run everything in this process, until Ctrl-C: Temporal, PostgreSQL, worker, gateway"),
		listed("demo", "Run one durable turn on a stack of its own, and end"), listed("worker", "Run turns on a Temporal server"))
}

// partOf returns the part of the program that a command line is for, with its arguments; nil if that is the client. Help and completion of a part
// are the part's own.
func partOf(args []string) (func([]string) int, []string) {
	var prefix []string
	if len(args) > 1 && (args[0] == "help" || args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		prefix, args = args[:1], args[1:]
		if len(args) == 1 && prefix[0] != "help" {
			return nil, nil // the name itself is being completed
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	rest := append(append([]string{}, prefix...), args[1:]...)
	switch args[0] {
	case "dev":
		return func(a []string) int { return dev.Run(program+" dev", a, embeddedTemporal) }, rest
	case "demo":
		return func(a []string) int { return dev.Run(program+" dev", a, embeddedTemporal) }, append(append(append([]string{}, prefix...), "demo"), args[1:]...)
	case "worker":
		return func(a []string) int { return worker.Run(program+" worker", a) }, rest
	default:
		return nil, nil
	}
}

// listed returns a command for the list of commands, for completion, and for suggestions. It runs as a part.
func listed(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, DisableFlagParsing: true, GroupID: starter.GroupServer,
		Run: func(_ *cobra.Command, args []string) { os.Exit(run(append([]string{name}, args...))) },
	}
}

func embeddedTemporal(context.Context) (devstack.StartTemporal, error) { return embedded.Start, nil }
