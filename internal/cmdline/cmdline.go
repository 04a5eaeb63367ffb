// Package cmdline is shared by the programs turnstone, worker, starter and dev: it prints one error with suggestions, limits help to a screen,
// prints the version, shows the events of a turn ([TurnPrinter]), and makes text safe to print at a terminal.
package cmdline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Finish gives a command and those below it the manners of this repository: suggestions for what was mistyped, and help of at most MaxFlags
// flags. common are the flags that help shows of a command that has more. mark is applied to errors of flags and arguments; nil: they stay.
func Finish(root *cobra.Command, common []string, mark func(error) error) {
	if mark == nil {
		mark = func(err error) error { return err }
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return mark(suggestFlag(cmd, err)) })
	limitHelp(root, common)
	finishArgs(root, mark)
}

func finishArgs(cmd *cobra.Command, mark func(error) error) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasAvailableSubCommands() && len(args) > 0:
				return mark(unknownCommand(cmd, args[0]))
			}
			return mark(err)
		}
	}
	for _, sub := range cmd.Commands() {
		finishArgs(sub, mark)
	}
}

// unknownCommand returns the error of a word that is no command, with the commands that are spelled like it.
func unknownCommand(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = maxTypos
	text := fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath())
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return errors.New(text)
}

// suggestFlag adds the flags that are spelled like an unknown one to its error.
func suggestFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var like []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if typos(unknown.GetSpecifiedName(), f.Name) <= maxTypos {
			like = append(like, "--"+f.Name)
		}
	})
	if len(like) == 0 {
		return err
	}
	return fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
}

// maxTypos is how many letters a suggestion may differ in.
const maxTypos = 2

// typos returns how many letters have to be inserted, removed, replaced or exchanged with their neighbour to make one word of the other.
func typos(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var before []int // the row before prev
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := prev[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, prev[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, make([]int, len(b)+1)
	}
	return prev[len(b)]
}

// Rename replaces the name of a program in the texts of a command and those below it.
func Rename(cmd *cobra.Command, from, to string) {
	if from == to {
		return
	}
	name := strings.NewReplacer(from+" ", to+" ")
	for _, text := range []*string{&cmd.Short, &cmd.Long, &cmd.Example} {
		*text = name.Replace(*text)
	}
	for _, sub := range cmd.Commands() {
		Rename(sub, from, to)
	}
}
