package postgres

import "slices"

// EraseBatch is how many rows of a kind go at once.
const EraseBatch = eraseBatch

// ErasedTables lists the tables in which something goes, and those in which nothing does with the reason.
func ErasedTables() (erased []string, kept map[string]string) {
	for _, k := range erasing() {
		erased = append(erased, k.of())
	}
	slices.Sort(erased)
	kept = map[string]string{}
	for _, s := range spared() {
		kept[s[0]] = s[1]
	}
	return slices.Compact(erased), kept
}
