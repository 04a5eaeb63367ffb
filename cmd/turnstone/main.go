// Command turnstone has the embedded stack, the worker and the client in one program.
//
//	turnstone demo        # start the embedded stack, run a durable turn and end
//	turnstone dev         # run the embedded stack until Ctrl-C
//	turnstone worker      # run turns on a Temporal server
//	turnstone chat "…"    # and all other commands of starter
package main

import (
	"context"
	"os"
	"slices"

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
	if runProgram, programArgs := findProgram(args); runProgram != nil {
		return runProgram(programArgs)
	}
	return starter.Run(program, args, programCommand("dev", "Run everything in this process, until Ctrl-C: Temporal, PostgreSQL, worker, gateway"),
		programCommand("demo", "Run one durable turn on a stack of its own, and end"), programCommand("worker", "Run turns on a Temporal server"))
}

// findProgram returns the program for a command line, dev or worker, with its arguments. It returns nil for a command of the client. Each program
// prints its own help and completions.
func findProgram(args []string) (runProgram func([]string) int, programArgs []string) {
	var prefix []string
	if len(args) > 1 && (args[0] == "help" || args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		prefix, args = args[:1], args[1:]
		if len(args) == 1 && prefix[0] != "help" {
			return nil, nil // completes the name of the program
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	runDev := func(a []string) int { return dev.Run(program+" dev", a, embeddedTemporal) }
	switch args[0] {
	case "dev":
		return runDev, slices.Concat(prefix, args[1:])
	case "demo": // a subcommand of dev
		return runDev, slices.Concat(prefix, args)
	case "worker":
		return func(a []string) int { return worker.Run(program+" worker", a) }, slices.Concat(prefix, args[1:])
	default:
		return nil, nil
	}
}

// programCommand returns a command that runs a program of [findProgram]. Help, completions and suggestions of the client list it.
func programCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, DisableFlagParsing: true, GroupID: starter.GroupServer,
		Run: func(_ *cobra.Command, args []string) { os.Exit(run(append([]string{name}, args...))) },
	}
}

func embeddedTemporal(context.Context) (devstack.StartTemporal, error) { return embedded.Start, nil }
