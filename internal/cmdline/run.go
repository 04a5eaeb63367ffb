package cmdline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// exitInterrupted is the exit code of a command that Ctrl-C ended.
const exitInterrupted = 130

// Run runs a command line and returns the exit code: 0 without an error, 130 if ctx was cancelled, or else 1. It prints the error for exit code 1.
func Run(ctx context.Context, root *cobra.Command, args []string, errOut io.Writer) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of this process
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	fmt.Fprintln(errOut, "Error:", err)
	return 1
}
