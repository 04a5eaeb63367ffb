package app

import "github.com/spf13/pflag"

// AddFlags defines --config and one flag for each of [Settings]. The flags keep the text; [Load] checks it together with everything
// else, so that all faults are listed at once.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "path of the configuration file (default ./"+configFile+" if it exists)")
	for _, s := range Settings() {
		flag := flags.VarPF(&rawFlag{text: s.Default, kind: s.Type}, s.Flag, "", s.Help)
		if s.Type == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// rawFlag is a flag's text, unread.
type rawFlag struct {
	text, kind string
	given      bool
}

func (f *rawFlag) String() string { return f.text }

func (f *rawFlag) Type() string { return f.kind }

// Set keeps the last text; a list grows instead.
func (f *rawFlag) Set(s string) error {
	if f.given && f.kind == "list" {
		s = f.text + "," + s
	}
	f.text, f.given = s, true
	return nil
}
