package schema

// EditDistance returns the number of characters that must be added, removed, replaced or swapped with their neighbour to change a to b. It takes time
// proportional to the product of the lengths.
func EditDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var beforePrevious, previous []int // rows of the matrix
	current := make([]int, len(t)+1)
	for j := range current {
		current[j] = j
	}
	for i := range s {
		beforePrevious, previous, current = previous, current, make([]int, len(t)+1)
		current[0] = i + 1
		for j := range t {
			replaced := previous[j]
			if s[i] != t[j] {
				replaced++
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, replaced)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				current[j+1] = min(current[j+1], beforePrevious[j-1]+1)
			}
		}
	}
	return current[len(t)]
}
