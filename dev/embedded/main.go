// Command embedded is ./dev with an embedded Temporal server.
package main

import (
	"context"
	"os"

	"github.com/turnstone-run/turnstone/dev/cli"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
)

func main() {
	os.Exit(cli.Run("dev", os.Args[1:], func(context.Context) (devstack.StartTemporal, error) { return embedded.Start, nil }))
}
