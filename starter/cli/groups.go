package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// standalone is the name of the program that has only the commands of this package. Help texts use it.
const standalone = "starter"

// GroupServer is the id of the help's group of commands that run a server.
const GroupServer = "server"

// commandGroups are the groups of the help with the names of their commands.
//
//nolint:gochecknoglobals // a constant in all but syntax
var commandGroups = []struct{ id, title, commands string }{
	{GroupServer, "Run a server:", ""},
	{"ask", "Ask, and see what came of it:", "chat start tail cancel message decide approvals turns rerun sessions results"},
	{"automate", "Run by the clock, a queue or a process:", "schedules jobs workflows"},
	{"catalog", "What agents are made of:", "catalog agents nodes plan route tools knowledge"},
	{"access", "Who may do what:", "keys whoami links audit"},
	{"operate", "Operate:", "doctor usage retention erase erasures setup version"},
}

// groupCommands adds the commands of root to the groups of its help. Help lists other commands last, under "Additional Commands".
func (a *app) groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		if g.id == GroupServer && len(a.otherCommands) == 0 {
			continue
		}
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for name := range strings.FieldsSeq(g.commands) {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = g.id
				}
			}
		}
	}
}

// renameProgram replaces the name of the standalone program by the name of this one.
func (a *app) renameProgram(text string) string {
	if a.program == standalone || a.program == "" {
		return text
	}
	return strings.NewReplacer(standalone+" ", a.program+" ", "go run ./dev", a.program+" dev").Replace(text)
}
