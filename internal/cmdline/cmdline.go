// Package cmdline has what the command lines of turnstone, worker, starter and dev have in common: suggestions for misspelled words, short help, the
// version, a printer of a turn's events ([TurnPrinter]), and functions that make text safe for a terminal.
package cmdline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Finish adds suggestions for misspelled commands and flags, and short help, to a command and its subcommands. Help of a command with more than
// maxFlags flags shows the common flags only. If wrap is not nil, it is applied to the errors of flags and arguments.
func Finish(root *cobra.Command, common []string, wrap func(error) error) {
	if wrap == nil {
		wrap = func(err error) error { return err }
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrap(suggestFlag(cmd, err)) })
	limitHelp(root, common)
	finishArgs(root, wrap)
}

// finishArgs wraps the errors of arguments. For a command with subcommands it replaces them by an unknownCommand error.
func finishArgs(cmd *cobra.Command, wrap func(error) error) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasAvailableSubCommands() && len(args) > 0:
				return wrap(unknownCommand(cmd, args[0]))
			}
			return wrap(err)
		}
	}
	for _, sub := range cmd.Commands() {
		finishArgs(sub, wrap)
	}
}

// unknownCommand returns an error that suggests the commands with a name similar to word.
func unknownCommand(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = maxTypos
	text := fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath())
	if similar := cmd.SuggestionsFor(word); len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(text)
}

// suggestFlag adds the flags with a similar name to the error of an unknown flag.
func suggestFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var similar []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if typos(unknown.GetSpecifiedName(), f.Name) <= maxTypos {
			similar = append(similar, "--"+f.Name)
		}
	})
	if len(similar) == 0 {
		return err
	}
	return fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
}

// maxTypos is the largest number of typos in a word that gets a suggestion.
const maxTypos = 2

// typos returns the Damerau-Levenshtein distance of two words: the number of letters to insert, remove, replace or swap with the next one to change
// one word into the other.
func typos(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var beforePrev []int
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
				row[j] = min(row[j], beforePrev[j-2]+1)
			}
		}
		beforePrev, prev, row = prev, row, make([]int, len(b)+1)
	}
	return prev[len(b)]
}

// Rename replaces the name of a program in the help texts of a command and its subcommands.
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
