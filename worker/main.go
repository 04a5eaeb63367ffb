// Command worker runs turns on a Temporal server and, unless the gateway is disabled, serves the gateway.
//
//	worker          # run, configured by turnstone.yaml, environment and flags
//	worker config   # print the effective configuration, secrets redacted
//	worker health   # ask a running worker; exit status 0 if a turn can run
//	worker migrate  # migrate the database and end
package main

import (
	"os"

	"github.com/turnstone-run/turnstone/worker/cli"
)

func main() { os.Exit(cli.Run("worker", os.Args[1:])) }
