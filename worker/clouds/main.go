// Command clouds is the worker with the storage drivers of Google Cloud and Azure. Build it under the name worker:
//
//	go build -o bin/worker ./worker/clouds
package main

import (
	"os"

	_ "github.com/turnstone-run/turnstone/clouds" // the one difference
	"github.com/turnstone-run/turnstone/worker/cli"
)

func main() { os.Exit(cli.Run("worker", os.Args[1:])) }
