// Package badinput gives the whole dispatcher what it should never be given: broken
// messages, configurations, answers and files, a full disk, a clock that steps, a
// server that goes away. Each case is carried out, and says where it ended.
//
// It holds tests only. TOLLGATE_BAD_INPUT_TABLE names a file that takes the table
// of what was tried, as Markdown.
package badinput
