package main

import "github.com/spf13/cobra"

// setupCommands are the commands that prepare a Temporal cluster and a database instead of talking to a server, such as the
// registration of search attributes. There are none yet.
func (a *app) setupCommands() []*cobra.Command { return nil }
