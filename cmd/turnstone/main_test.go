package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFindProgram checks which program a command line runs, and with which arguments. It does not run the programs.
func TestFindProgram(t *testing.T) {
	for name, c := range map[string]struct {
		args, programArgs []string
		found             bool
	}{
		"client":                   {[]string{"chat", "dev"}, nil, false},
		"nothing":                  {nil, nil, false},
		"help":                     {[]string{"help"}, nil, false},
		"dev":                      {[]string{"dev", "--ephemeral"}, []string{"--ephemeral"}, true},
		"demo":                     {[]string{"demo", "x"}, []string{"demo", "x"}, true},
		"worker":                   {[]string{"worker", "health"}, []string{"health"}, true},
		"help of a program":        {[]string{"help", "worker", "health"}, []string{"help", "health"}, true},
		"help of demo":             {[]string{"help", "demo"}, []string{"help", "demo"}, true},
		"completion in a program":  {[]string{"__complete", "dev", "--h"}, []string{"__complete", "--h"}, true},
		"completion of its name":   {[]string{"__complete", "dev"}, nil, false},
		"completion of the client": {[]string{"__complete", "chat", ""}, nil, false},
		"help of the client":       {[]string{"help", "chat"}, nil, false},
		"the name as an argument":  {[]string{"tail", "worker"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			runProgram, programArgs := findProgram(c.args)
			require.Equal(t, c.found, runProgram != nil)
			require.Equal(t, c.programArgs, programArgs)
		})
	}
}
