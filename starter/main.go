// Command starter talks to a running Turnstone: it starts turns, follows them, answers their approvals, fetches their results,
// and edits the catalog of agents. It is a client of the HTTP API, and of the queue of jobs, and contains no server.
package main

import (
	"os"

	"github.com/turnstone-run/turnstone/starter/cli"
)

func main() { os.Exit(cli.Run("starter", os.Args[1:])) }
