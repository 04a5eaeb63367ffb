package threats_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../.." // of the repository

// threat is a row of the table in SECURITY.md: | id | threat | what stops it | what remains | tested by |.
type threat struct {
	line  int
	cells []string // five, trimmed
	tests []string // what stands in backquotes in the last one: folder.Test, or e2e.TestScenarios/file/name
}

var (
	row    = regexp.MustCompile(`^\|\s*(T-\d\d)\s*\|`)
	quoted = regexp.MustCompile("`([^`]+)`")
	linked = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// threats reads the rows of a document's table. A pipe within a cell is no part of this form.
func threats(document string) []threat {
	var found []threat
	for i, line := range strings.Split(document, "\n") {
		if !row.MatchString(line) {
			continue
		}
		t := threat{line: i + 1}
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			t.cells = append(t.cells, strings.TrimSpace(cell))
		}
		for _, m := range quoted.FindAllStringSubmatch(t.cells[len(t.cells)-1], -1) {
			t.tests = append(t.tests, m[1])
		}
		found = append(found, t)
	}
	return found
}

// faults says what is wrong with a table: has reports whether a test exists.
func faults(table []threat, has func(name string) bool) []string {
	var all []string
	seen := map[string]bool{}
	for i, t := range table {
		say := func(format string, args ...any) {
			all = append(all, fmt.Sprintf("SECURITY.md:%d: ", t.line)+fmt.Sprintf(format, args...))
		}
		id := t.cells[0]
		if seen[id] {
			say("%s is there twice", id)
		}
		seen[id] = true
		if want := fmt.Sprintf("T-%02d", i+1); !seen[want] {
			say("%s stands where %s is due", id, want)
		}
		if len(t.cells) != 5 {
			say("%s has %d cells, not 5", id, len(t.cells))
		} else if slices.Contains(t.cells, "") {
			say("%s has an empty cell", id)
		}
		if len(t.tests) == 0 {
			say("%s has no test", id)
		}
		for _, name := range t.tests {
			if !has(name) {
				say("%s: there is no test %s", id, name)
			}
		}
	}
	return all
}

// TestThreatsAreTested: every threat of SECURITY.md names tests, and all of them exist.
func TestThreatsAreTested(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	table := threats(string(document))
	require.NotEmpty(t, table)
	rows := regexp.MustCompile(`(?m)^\|\s*T-`).FindAllString(string(document), -1)
	require.Len(t, table, len(rows), "a row whose id is none would not be looked at")

	known := map[string]map[string]bool{} // of a folder
	require.Empty(t, faults(table, func(name string) bool {
		folder, test, ok := strings.Cut(name, ".")
		if !ok || !filepath.IsLocal(folder) {
			return false
		}
		if known[folder] == nil {
			known[folder] = testsOf(t, filepath.Join(root, folder))
		}
		test, scenario, sub := strings.Cut(test, "/")
		if !known[folder][test] {
			return false
		}
		return !sub || (name == "e2e.TestScenarios/"+scenario && hasScenario(t, scenario))
	}))
	for _, m := range linked.FindAllStringSubmatch(string(document), -1) {
		path, _, _ := strings.Cut(m[1], "#")
		if path == "" || strings.Contains(path, "://") {
			continue
		}
		require.FileExists(t, filepath.Join(root, path), "a link of SECURITY.md")
	}
}

// testsOf are the names of the tests and fuzz targets in the test files of a folder; none where there is no such folder.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// hasScenario reports whether testdata/scenarios has file/name.
func hasScenario(t *testing.T, scenario string) bool {
	t.Helper()
	file, name, ok := strings.Cut(scenario, "/")
	if !ok || file != filepath.Base(file) {
		return false
	}
	data, err := os.ReadFile(filepath.Join(root, "testdata/scenarios", file+".yaml"))
	if err != nil {
		return false
	}
	var entries []struct {
		Name string `yaml:"name"`
	}
	require.NoError(t, yaml.Unmarshal(data, &entries))
	for _, e := range entries {
		if e.Name == name {
			return true
		}
	}
	return false
}

// TestFaultsOfATable: what the test above is to find it does find.
func TestFaultsOfATable(t *testing.T) {
	t.Parallel()
	table := threats("| id | threat |\n|---|---|\n" +
		"| T-01 | a | b | c | `p.TestA`, `e2e.TestScenarios/x/y` |\n" +
		"| T-01 | a | b | c | `p.TestA` |\n" +
		"| T-04 | a | b | c | `p.TestGone` |\n" +
		"| T-04 | a |  | c | by hand |\n" +
		"| T-05 | a | b | `p.TestA` |\n")
	require.Equal(t, []string{"p.TestA", "e2e.TestScenarios/x/y"}, table[0].tests)
	require.Equal(t, []string{
		"SECURITY.md:4: T-01 is there twice", "SECURITY.md:4: T-01 stands where T-02 is due",
		"SECURITY.md:5: T-04 stands where T-03 is due", "SECURITY.md:5: T-04: there is no test p.TestGone",
		"SECURITY.md:6: T-04 is there twice", "SECURITY.md:6: T-04 has an empty cell", "SECURITY.md:6: T-04 has no test",
		"SECURITY.md:7: T-05 has 4 cells, not 5",
	}, faults(table, func(name string) bool { return name != "p.TestGone" }))

	names := testsOf(t, ".")
	require.True(t, names["TestFaultsOfATable"])
	require.False(t, names["testsOf"])
	require.Empty(t, testsOf(t, "no/such/folder"))
	require.True(t, hasScenario(t, "basics/tool-not-granted"))
	for _, none := range []string{"basics", "basics/none", "none/tool-not-granted", "../scenarios/basics/tool-not-granted"} {
		require.False(t, hasScenario(t, none), none)
	}
}
