package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// standalone is the name of the program that is this command line and nothing else; the texts are written with it.
const standalone = "starter"

// GroupServer is the group of the commands that run a server.
const GroupServer = "server"

// commandGroups are the groups of the help, with their commands.
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

// groupCommands puts the commands of root into the groups of its help. A command in no group comes last, under "Additional Commands".
func (a *app) groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		if g.id == GroupServer && len(a.others) == 0 {
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

// named returns a text about commands as this program calls them.
func (a *app) named(text string) string {
	if a.program == standalone || a.program == "" {
		return text
	}
	return strings.NewReplacer(standalone+" ", a.program+" ", "go run ./dev", a.program+" dev").Replace(text)
}
