// Command dev runs everything in one process on a machine that has nothing: the embedded Temporal server with its Web UI, a
// private PostgreSQL, an offline model, a sample API, the worker and the gateway.
//
//	go run ./dev demo ["a prompt of your own"]   # the main job, ends by itself
//	go run ./dev                                 # keeps running until Ctrl-C
package main

import (
	"os"

	"github.com/turnstone-run/turnstone/dev/cli"
)

func main() { os.Exit(cli.Run("dev", os.Args[1:])) }
