package dataset

import (
	"github.com/turnstone-run/turnstone/agent"
)

// maxFields is how many fields a dataset tells of.
const maxFields = 50

// Fields describes the members of the first sample rows that are objects, in the order of their first appearance, at most 50. Values of
// different types make a field "mixed"; null does not, and alone it is "null". A sample of 0 is all rows.
func Fields(rows []Row, sample int) []agent.DatasetField {
	if sample > 0 && sample < len(rows) {
		rows = rows[:sample]
	}
	var fields []agent.DatasetField
	index := map[string]int{}
	var m Member
	for _, row := range rows {
		if len(row) == 0 || row[0] != '{' {
			continue
		}
		for members := MembersOf(row); members.Next(&m); {
			kind := typeOf(row[m.From:])
			i, known := Lookup(&m, index)
			switch {
			case !known && len(fields) == maxFields:
			case !known:
				index[m.Name()] = len(fields)
				fields = append(fields, agent.DatasetField{Name: m.Name(), Type: kind})
			case kind == fields[i].Type || kind == typeNull:
			case fields[i].Type == typeNull:
				fields[i].Type = kind
			default:
				fields[i].Type = "mixed"
			}
		}
	}
	return fields
}

const typeNull = "null"

func typeOf(v []byte) string {
	switch v[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return typeNull
	default:
		return "number"
	}
}
