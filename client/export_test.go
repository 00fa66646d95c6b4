package client

// For the tests, which hold them against the dispatcher's side.
const HeaderBy = headerBy

var ResultsStream = resultsStream
