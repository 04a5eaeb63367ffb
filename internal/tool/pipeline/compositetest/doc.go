// Package compositetest is the suite that every store of composite tools passes ([tool.Composites]), and a store in memory for tests.
//
// What the suite holds a store to, besides the port's own words:
//
//   - A use counts by tenant and key. A key that was counted answers again and counts no more.
//   - Samples are different JSON values, the one that was used last first, whether or not it had been used before. Numbers keep their
//     digits.
//   - The store makes a composite's ID and the two times. Uses are those of its shape.
//   - SaveComposite stores version 1 of a shape that has none, and version n+1 over version n. Any other version is of somebody who was
//     slower: it is answered with what is stored, and changes nothing.
//   - Of a shape that has a composite, name and switch stay, and a person's description.
//   - Earlier versions can be read, with their parameters and pipeline and the present name, description and switch.
package compositetest
