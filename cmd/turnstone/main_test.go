package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartOf checks which command lines are a part's, and what the part is given. That the parts run is for the tests of their packages.
func TestPartOf(t *testing.T) {
	for name, c := range map[string]struct {
		args, rest []string
		part       bool
	}{
		"client":                    {[]string{"chat", "dev"}, nil, false},
		"nothing":                   {nil, nil, false},
		"help":                      {[]string{"help"}, nil, false},
		"dev":                       {[]string{"dev", "--ephemeral"}, []string{"--ephemeral"}, true},
		"demo":                      {[]string{"demo", "x"}, []string{"demo", "x"}, true},
		"worker":                    {[]string{"worker", "health"}, []string{"health"}, true},
		"help of a part":            {[]string{"help", "worker", "health"}, []string{"help", "health"}, true},
		"help of demo":              {[]string{"help", "demo"}, []string{"help", "demo"}, true},
		"completion within a part":  {[]string{"__complete", "dev", "--h"}, []string{"__complete", "--h"}, true},
		"completion of a part":      {[]string{"__complete", "dev"}, nil, false},
		"completion of the client":  {[]string{"__complete", "chat", ""}, nil, false},
		"help of a client's":        {[]string{"help", "chat"}, nil, false},
		"a part's name as argument": {[]string{"tail", "worker"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			part, rest := partOf(c.args)
			require.Equal(t, c.part, part != nil)
			require.Equal(t, c.rest, rest)
		})
	}
}
