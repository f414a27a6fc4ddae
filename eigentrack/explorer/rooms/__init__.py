"""The rooms of the page, one module each: components, and events that call the functions behind them."""
