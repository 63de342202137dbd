"""Programs that are traced before they run; imports everything below it in the core."""
